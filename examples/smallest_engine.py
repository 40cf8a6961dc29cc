"""The smallest complete engine: the contract's six members and a native for each primitive, nothing else.

The library that computes is NumPy, so that the example runs everywhere; for another library replace ``np``.
Every op that is not a primitive comes from its decomposition: ``gelu``, ``std`` and ``solve`` work and are written nowhere here.
"""

import math

import numpy as np

import intermodal as im
from intermodal.backend import Backend, DTypeUsage, register
from intermodal.errors import IndexRangeError
from intermodal.ops.manipulation import check_no_copy

COMPUTED = frozenset(d for d in im.dtypes.ALL if d.is_standard)
COMBINE = {"add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum}
# Where the library's function has our name, our meaning and our parameters.
SAME = (
    "add multiply divide remainder pow equal less bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift "
    "bitwise_right_shift exp expm1 log log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 abs signbit nextafter "
    "conj real imag round where permute_dims broadcast_to concat flip max min all any argmax argmin matmul"
)


def complex_(real, imag):
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def floor_divide(x1, x2):
    exact = np.floor_divide(x1, x2)
    if exact.dtype.kind != "f":
        return exact
    # NumPy answers NaN where an operand is infinite; the standard rounds the quotient.
    return np.where(np.isinf(x1) | np.isinf(x2), np.floor(np.divide(x1, x2)), exact)


def reshape(x, shape, copy):
    result = np.reshape(x, shape, copy=True if copy else None)
    check_no_copy(copy, np.shares_memory(x, result) or x.size == 0, "reshape")
    return result


def argsort(x, axis, descending, stable):
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)


def checked(indices, size):
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise IndexRangeError(f"an index lies outside an axis of size {size}. Indices must lie in [-{size}, {size - 1}].")
    return indices


def along(x, indices, axis):
    """Both broadcast along every axis but one."""
    rest = np.broadcast_shapes(*((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, indices)))
    grow = [(*rest[:axis], a.shape[axis], *rest[axis + 1 :]) for a in (x, indices)]
    return np.broadcast_to(x, grow[0]), np.broadcast_to(checked(indices, x.shape[axis]), grow[1])


def basic_put(x, value, key, mode):
    result = x.copy()
    result[key] = value if mode == "assign" else COMBINE[mode](result[key], value)
    return result


def scatter(x, indices, values, axis, mode):
    result = x.copy()
    _, places = along(x, indices, axis)
    grid = list(np.ogrid[tuple(slice(n) for n in places.shape)])
    grid[axis] = places
    if mode == "assign":
        result[tuple(grid)] = values
    else:
        COMBINE[mode].at(result, tuple(grid), np.asarray(values, x.dtype))
    return result


def random_integers(shape, low, high, dtype, device, seed):
    return np.random.default_rng(seed).integers(low, high, shape, dtype=dtype.numpy)


def as_complex(x):
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


FUNCTIONS = {name: getattr(np, name) for name in SAME.split()} | {
    "complex": complex_,
    "floor_divide": floor_divide,
    "erf": lambda x: np.vectorize(math.erf, [np.float64])(x).astype(x.dtype),
    "floor": lambda x: x if x.dtype.kind in "iu" else np.floor(x),
    "full": lambda shape, fill_value, dtype, device: np.full(shape, fill_value, dtype.numpy),
    "arange": lambda start, stop, step, dtype, device: np.arange(start, stop, step).astype(dtype.numpy),
    "astype": lambda x, dtype, copy, device: x.astype(dtype.numpy, copy=copy),
    "reshape": reshape,
    "sum": lambda x, axis, dtype, keepdims: np.sum(x, axis, dtype.numpy, keepdims=keepdims),
    "prod": lambda x, axis, dtype, keepdims: np.prod(x, axis, dtype.numpy, keepdims=keepdims),
    "cumulative_sum": lambda x, dtype, **attrs: np.cumulative_sum(x, dtype=dtype.numpy, **attrs),
    "cumulative_prod": lambda x, dtype, **attrs: np.cumulative_prod(x, dtype=dtype.numpy, **attrs),
    "cumulative_max": np.maximum.accumulate,
    "cumulative_min": np.minimum.accumulate,
    "sort": lambda x, axis, descending, stable: np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis),
    "argsort": argsort,
    "nonzero": np.nonzero,
    "take": lambda x, indices, axis: np.take(x, checked(indices, x.shape[axis]), axis),
    "take_along_axis": lambda x, indices, axis: np.take_along_axis(*along(x, indices, axis), axis),
    "basic_index": lambda x, key: x[key],
    "basic_put": basic_put,
    "scatter": scatter,
    "qr": np.linalg.qr,
    "svd": np.linalg.svd,
    "eigh": np.linalg.eigh,
    "eig": lambda x: tuple(map(as_complex, np.linalg.eig(x))),
    "fft": np.fft.fft,
    "randint": random_integers,
}


def with_arrays(function):
    """NumPy answers with scalars for 0-d operands; an engine answers with arrays."""

    def native(*arrays, **attrs):
        result = function(*arrays, **attrs)
        return tuple(map(np.asarray, result)) if isinstance(result, tuple) else np.asarray(result)

    return native


NATIVES = {name: with_arrays(function) for name, function in FUNCTIONS.items()}


class SmallestBackend(Backend):
    """Tensors as NumPy arrays, with primitives only."""

    engine = "smallest"
    natives = NATIVES

    def devices(self):
        return (im.Device("smallest:cpu"),)

    def dtype_usage(self, device, dtype):
        return DTypeUsage.GENERAL if dtype in COMPUTED else DTypeUsage.NONE

    def shape(self, array):
        return array.shape

    def from_host(self, data, device, *, copy=None):
        return data.copy() if copy else data

    def to_host(self, array):
        return array


if __name__ == "__main__":
    register("smallest", SmallestBackend)
    with im.config.scope(device="smallest:cpu"):
        x = im.linspace(-1.0, 1.0, 5)
        print(im.std(x), im.sort(x, descending=True), x[x > 0], sep="\n")
