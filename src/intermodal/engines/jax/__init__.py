"""The JAX engine: arrays on the CPU, GPUs and TPUs, each op compiled by XLA on first use."""

from intermodal.engines.jax.backend import JaxBackend

__all__ = ["JaxBackend"]
