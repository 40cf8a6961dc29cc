"""The layer that records and differentiates: tracked tensors, gradients, derivatives of functions."""

from intermodal.autodiff.checkpoint import budget, checkpointing, detect_anomaly, segment
from intermodal.autodiff.custom import custom_vjp
from intermodal.autodiff.functional import grad, hessian, hvp, jvp, value_and_grad, vjp
from intermodal.autodiff.gradients import Gradients, detach, from_inner, inner, require_grad
from intermodal.autodiff.layer import Autodiff
from intermodal.autodiff.nodes import is_recording, no_grad

__all__ = [
    "Autodiff",
    "Gradients",
    "budget",
    "checkpointing",
    "custom_vjp",
    "detach",
    "detect_anomaly",
    "from_inner",
    "grad",
    "hessian",
    "hvp",
    "inner",
    "is_recording",
    "jvp",
    "no_grad",
    "require_grad",
    "segment",
    "value_and_grad",
    "vjp",
]
