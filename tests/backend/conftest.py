"""What the tests of backends share: engines made for a test."""

from .made import make

__all__ = ["make"]
