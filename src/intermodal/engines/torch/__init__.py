"""The PyTorch engine: the host's fast kernels, CUDA and Apple GPUs, by one set of natives."""

from intermodal.engines.torch.backend import TorchBackend

__all__ = ["TorchBackend"]
