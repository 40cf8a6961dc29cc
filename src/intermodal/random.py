"""Random numbers, as users import them: the rows of this namespace, and the seed of a device's stream."""

from intermodal.backend import check_device
from intermodal.config import default_device
from intermodal.devices import DeviceLike, as_device
from intermodal.ops.random import *
from intermodal.ops.random import check_seed


def seed(seed: int, device: DeviceLike | None = None) -> None:
    """Start a device's stream of seeds anew: the same program then draws the same numbers there.

    Args:
        seed: an integer in [0, 2**63).
        device: the device; by default the one on which new tensors are made.

    Example:
        >>> import intermodal as im
        >>> im.random.seed(3)
        >>> x = im.random.uniform(2)
        >>> im.random.seed(3)
        >>> bool(im.all(x == im.random.uniform(2)))
        True
    """
    target = default_device() if device is None else as_device(device)
    check_device(target).seed(target, check_seed(seed))
