"""Optimizers and schedules as users import them: ``im.optim.AdamW``."""

from intermodal.training.optim import (
    SGD as SGD,
    Adam as Adam,
    AdamW as AdamW,
    clip_by_global_norm as clip_by_global_norm,
    constant as constant,
    cosine as cosine,
    global_norm as global_norm,
    warmup as warmup,
)
from intermodal.training.precision import LossScale as LossScale
