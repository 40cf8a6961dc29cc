"""How the engines' threads wait for work: importing this module, before NumPy, sets what lets engines alternate.

OpenBLAS (in NumPy) and the OpenMP of GNU (in PyTorch) each keep a pool of threads that spin for a while after their
work, in case more comes. A program that goes back and forth between engines then has the one pool's spinning threads on
the cores that the other one needs. Each library reads an environment variable when it loads:

| variable | value | instead of |
|---|---|---|
| ``OPENBLAS_THREAD_TIMEOUT`` | 16: a thread sleeps after 2**16 ticks of the clock, some 25 µs | 2**26, some 25 ms |
| ``GOMP_SPINCOUNT`` | 10000 turns, some 0.5 ms | 300000, some 15 ms |

A variable that is set already, and one that a related variable decides about, is left alone.
``INTERMODAL_CALM_THREADS=0`` leaves all of them alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, MutableMapping
from typing import Final, NamedTuple

__all__ = ["DEFAULTS", "LATE", "SET", "SWITCH", "Default", "calm"]

SWITCH: Final = "INTERMODAL_CALM_THREADS"


class Default(NamedTuple):
    """A variable that we give a value where the user has given none.

    Attributes:
        variable: its name.
        value: what we set.
        decided_by: the variables that are the user's word on the matter; one of them set, and ours stays away.
        library: the one that reads it, when it loads.
    """

    variable: str
    value: str
    decided_by: tuple[str, ...]
    library: str


# Long enough that one engine's calls, one after the other, find its threads awake: with 4, which lets OpenBLAS sleep at once,
# products of 128 x 128 took 6 % longer, and so did elementwise ops of PyTorch with OMP_WAIT_POLICY=PASSIVE, by 25 %.
DEFAULTS: Final = (
    Default("OPENBLAS_THREAD_TIMEOUT", "16", ("OPENBLAS_THREAD_TIMEOUT",), "numpy"),
    Default("GOMP_SPINCOUNT", "10000", ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"), "torch"),
)


def calm(environment: MutableMapping[str, str], loaded: Collection[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Set the defaults that nobody has decided about.

    Args:
        environment: where they are set.
        loaded: the modules that are loaded.

    Returns:
        What was set, and the libraries for which it came too late.
    """
    if environment.get(SWITCH, "1") == "0":
        return {}, ()
    chosen = [d for d in DEFAULTS if not any(name in environment for name in d.decided_by)]
    ours = {d.variable: d.value for d in chosen}
    environment.update(ours)
    return ours, tuple(d.library for d in chosen if d.library in loaded)


SET, LATE = calm(os.environ, sys.modules)
"""What this process has set, and the libraries that had been loaded before, so that they go on as they are."""
