from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, interpolate, optimize
from scipy.spatial import transform

import intermodal as im

from .rows import Returns, Row, case_name, cases, compare, defaults, xfail


def row(name: str, *inputs: Any, call: Callable[..., Any] | None = None, returns: Returns = "tensor", in_default_float: bool = False,
        dtypes: tuple[str, ...] = ("float64", "float32"), **keywords: Any) -> Row:  # fmt: skip
    """A function by its name under ``scipy``, unless `call` wraps it."""
    module, _, function = name.rpartition(".")
    found = call or getattr(importlib.import_module(f"scipy.{module}"), function)
    return Row(name, found, inputs, keywords, returns, dtypes, in_default_float=in_default_float)


def each(module: str, names: str, *inputs: Any, **options: Any) -> list[Row]:
    return [row(f"{module}.{name}", *inputs, **options) for name in names.split()]


def inputs(dtype: str) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    x, m = rng.normal(size=32), rng.normal(size=(12, 4))
    data = {
        "x": x, "y": 0.5 * x + rng.normal(size=32), "k": rng.normal(size=5), "p": rng.uniform(0.5, 3, 32), "q": rng.uniform(0.1, 0.9, 32),
        "m": m, "n": rng.normal(size=(12, 4)), "books": m[:3] + 0.1, "three": np.ones((3, 3)), "square": m.T @ m, "image": rng.normal(size=(12, 10)),
        "grid": np.linspace(0, 2, 33), "curve": np.sin(np.linspace(0, 2, 33)), "between": rng.uniform(0.1, 1.9, 7), "low": np.zeros(3), "high": np.asarray([2.0, 3.0, 4.0]),
        "counts": rng.integers(5, 20, 8).astype("float64"), "start": np.asarray([1.3, 0.7, 0.8]), "quaternions": rng.normal(size=(5, 4)), "vectors": rng.normal(size=(5, 3)),
    }  # fmt: skip
    return {name: value.astype(dtype) for name, value in data.items()} | {
        "c": (x + 1j * x[::-1]).astype("complex64" if dtype == "float32" else "complex128"),
        "labels": rng.integers(0, 4, (12, 10)),
        "shape": rng.random((12, 10)) > 0.4,
    }


def xp(v: Any) -> Any:
    return im if isinstance(v, im.Tensor) else np


def mean(v: Any, axis: int) -> Any:
    return xp(v).mean(v, axis=axis)


def product(v: Any) -> Any:
    return xp(v).prod(v, axis=-1)


def exp(v: Any) -> Any:
    return xp(v).exp(v)


def at(curve: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, where: curve(x, y)(where)


STATS = [
    row("stats.zscore", "m", axis=0),
    row("stats.zmap", "x", "y"),
    row("stats.gzscore", "p"),
    row("stats.skew", "m", axis=0),
    row("stats.kurtosis", "m", axis=1),
    row("stats.moment", "x", order=3),
    row("stats.variation", "p"),
    row("stats.sem", "m"),
    row("stats.iqr", "x"),
    row("stats.median_abs_deviation", "m"),
    row("stats.describe", "m"),
    row("stats.entropy", "p", "q"),
    row("stats.differential_entropy", "x"),
    row("stats.gmean", "p"),
    row("stats.hmean", "p"),
    row("stats.pmean", "p", 3),
    row("stats.gstd", "p"),
    row("stats.mode", "labels", axis=0),
    row("stats.tmean", "x", (-1, 1)),
    row("stats.tvar", "x", (-1, 1)),
    row("stats.tstd", "x", (-1, 1)),
    row("stats.tsem", "x", (-1, 1)),
    row("stats.tmin", "x", -0.5),
    row("stats.tmax", "x", 0.5),
    row("stats.trim_mean", "x", 0.1),
    row("stats.sigmaclip", "x", 2, 2),
    row("stats.kstat", "x", 2),
    row("stats.kstatvar", "x", 2),
    row("stats.lmoment", "x"),
    row("stats.quantile", "x", "q"),
    row("stats.rankdata", "image", axis=1, in_default_float=True),
    row("stats.circmean", "x"),
    row("stats.circvar", "x"),
    row("stats.circstd", "x"),
    row("stats.directional_stats", "vectors"),
    row("stats.false_discovery_control", "q"),
    row("stats.boxcox_llf", 0.5, "p"),
    row("stats.yeojohnson_llf", 0.5, "x"),
    row("stats.ttest_ind", "x", "y"),
    row("stats.ttest_rel", "x", "y"),
    row("stats.ttest_1samp", "m", 0.1),
    row("stats.ttest_ind_from_stats", 0.5, "p", 12, 0.1, "q", 14, in_default_float=True),
    row("stats.pearsonr", "x", "y"),
    row("stats.spearmanrho", "x", "y"),
    row("stats.chatterjeexi", "x", "y"),
    row("stats.skewtest", "x"),
    row("stats.kurtosistest", "x"),
    row("stats.normaltest", "m"),
    row("stats.jarque_bera", "x"),
    row("stats.chisquare", "counts"),
    row("stats.power_divergence", "counts", lambda_="log-likelihood"),
    row("stats.f_oneway", "x", "y", "p"),
    row("stats.alexandergovern", "x", "y", "p"),
    row("stats.bartlett", "x", "y"),
    row("stats.levene", "x", "y"),
    row("stats.fligner", "x", "y"),
    row("stats.mood", "x", "y"),
    row("stats.ansari", "x", "y"),
    row("stats.kruskal", "x", "y"),
    row("stats.friedmanchisquare", "x", "y", "p"),
    row("stats.brunnermunzel", "x", "y", in_default_float=True),
    row("stats.mannwhitneyu", "x", "y"),
    row("stats.wilcoxon", "x", "y", method="asymptotic"),
    row("stats.ks_1samp", "q", lambda v: v),
    row("stats.cramervonmises_2samp", "x", "y", method="asymptotic"),
    row("stats.epps_singleton_2samp", "x", "y"),
    row("stats.combine_pvalues", "q"),
    row("stats.bootstrap", ("x",), mean, rng=7, n_resamples=99),
]
SPECIAL = [
    row("special.logsumexp", "m", axis=1),
    row("special.softmax", "m", axis=1),
    row("special.log_softmax", "m", axis=1),
    *each("special", "erf erfc erfcx expit exp2 exp10 exprel cbrt gamma gammaln gammasgn rgamma i0 i0e i1 i1e j0 j1", "x"),
    *each("special", "ndtr log_ndtr sinc cosm1 cosdg sindg entr expi", "x"),
    *each("special", "loggamma psi k0 k0e k1 k1e y0 y1 exp1 spence zetac", "p"),
    *each("special", "logit erfinv ndtri ellipk ellipkm1", "q"),
    *each("special", "xlogy xlog1py rel_entr kl_div betaln gammainc gammaincc huber pseudo_huber", "p", "q"),
    *each("special", "boxcox boxcox1p inv_boxcox chdtr chdtrc binom poch", "p", "q"),
    row("special.zeta", "p", "q"),
    row("special.betainc", "p", "p", "q"),
    row("special.betaincinv", "p", "p", "q"),
    row("special.gammaincinv", "p", "q"),
    row("special.hyp1f1", "p", "p", "q"),
    row("special.fdtr", "p", "p", "q"),
    row("special.stdtr", "p", "x"),
    row("special.polygamma", 2, "p"),
    row("special.multigammaln", "p", 1),
]
FFT = [
    *each("fft", "fft ifft fftn ifftn irfft hfft fftshift ifftshift", "c"),
    *each("fft", "rfft ihfft rfftn dct idct dst idst dctn idctn dstn idstn", "x"),
    *each("fft", "fft2 ifft2 rfft2 irfft2 irfftn hfft2 ihfft2 hfftn ihfftn", "image"),
    row("fft.fht", "p", 0.1, 0.5, dtypes=("float64",)),
    row("fft.ifht", "p", 0.1, 0.5, dtypes=("float64",)),
]
SIGNAL = [
    row("signal.detrend", "m", axis=0),
    row("signal.hilbert", "x"),
    row("signal.hilbert2", "image"),
    row("signal.envelope", "x"),
    row("signal.lfilter", "k", "p", "x"),
    row("signal.filtfilt", "k", "p", "x", padlen=4, method="gust"),
    *each("signal", "convolve correlate fftconvolve oaconvolve", "x", "k"),
    row("signal.convolve2d", "image", "m"),
    row("signal.correlate2d", "image", "m"),
    row("signal.deconvolve", "x", "p"),
    row("signal.resample", "x", 20),
    row("signal.resample_poly", "x", 3, 2),
    row("signal.upfirdn", "k", "x", up=2),
    row("signal.medfilt", "x", 3),
    row("signal.medfilt2d", "image", 3),
    row("signal.order_filter", "image", "three", 2),
    row("signal.wiener", "image", 3),
    row("signal.savgol_filter", "x", 5, 2),
    row("signal.vectorstrength", "p", "q"),
    row("signal.cspline1d", "x"),
    row("signal.qspline1d", "x"),
    row("signal.gauss_spline", "x", 3),
    row("signal.freqz", "k", dtypes=("float64",)),
    row("signal.group_delay", ("k", 1)),
    row("signal.bilinear", "k", "p"),
    row("signal.tf2zpk", "k", "k"),
    row("signal.lp2lp", "k", "p"),
]
CLUSTER = [
    row("cluster.vq.whiten", "m"),
    row("cluster.vq.vq", "m", "books"),
    row("cluster.vq.kmeans", "m", "books"),
    row("cluster.vq.kmeans2", "m", "books", minit="matrix"),
    *each("cluster.hierarchy", "linkage single complete average weighted centroid median ward", "m"),
    row("cluster.hierarchy.fclusterdata", "m", 1.0),
]
INTEGRATE = [
    row("integrate.trapezoid", "curve", "grid"),
    row("integrate.cumulative_trapezoid", "curve", "grid"),
    row("integrate.simpson", "curve", "grid", returns="numpy"),
    row("integrate.cumulative_simpson", "curve", "grid", call=lambda y, x: integrate.cumulative_simpson(y, x=x)),
    row("integrate.romb", "curve"),
    row("integrate.tanhsinh", lambda v: v**3, "low", "high"),
    row("integrate.cubature", product, "low", "high"),
]
OPTIMIZE = [
    row("optimize.rosen", "start"),
    row("optimize.rosen_der", "start"),
    row("optimize.rosen_hess", "start"),
    row("optimize.rosen_hess_prod", "start", "high"),
    row("optimize.elementwise.find_root", lambda v: v**2 - 2, ("low", "high")),
    row("optimize.elementwise.find_minimum", lambda v: (v - 1) ** 2, ("low", "start", "high")),
    row("optimize.elementwise.bracket_root", lambda v: v**2 - 2, "low"),
    row("optimize.elementwise.bracket_minimum", lambda v: (v - 1) ** 2, "low"),
    row("optimize.minimize", optimize.rosen, "start", jac=optimize.rosen_der, returns="numpy"),
]
LINALG = [
    row("linalg.orthogonal_procrustes", "m", "n"),
    row("linalg.block_diag", "m", "square"),
    row("linalg.fiedler", "x"),
    *each("linalg", "inv expm sqrtm svd eigh qr lu cholesky det pinv", "square", returns="numpy"),
    row("linalg.solve", "square", "square", returns="numpy"),
    row("linalg.lstsq", "m", "n", returns="numpy"),
]
NDIMAGE = [
    row("ndimage.gaussian_filter", "image", 1.0),
    row("ndimage.gaussian_filter1d", "image", 1.0),
    row("ndimage.gaussian_laplace", "image", 1.0),
    row("ndimage.gaussian_gradient_magnitude", "image", 1.0),
    *each("ndimage", "laplace sobel prewitt uniform_filter spline_filter", "image"),
    *each("ndimage", "median_filter maximum_filter minimum_filter white_tophat", "image", size=3),
    *each("ndimage", "grey_erosion grey_dilation grey_opening grey_closing", "image", size=3),
    row("ndimage.convolve", "image", "square"),
    row("ndimage.correlate", "image", "square"),
    row("ndimage.convolve1d", "image", "k"),
    row("ndimage.percentile_filter", "image", 30, size=3),
    row("ndimage.rotate", "image", 20),
    row("ndimage.shift", "image", 0.5),
    row("ndimage.zoom", "image", 1.5),
    row("ndimage.fourier_gaussian", "image", 1.0),
    *each("ndimage", "label binary_erosion binary_dilation binary_opening binary_closing", "shape"),
    *each("ndimage", "binary_fill_holes distance_transform_edt", "shape"),
    *each("ndimage", "sum mean variance standard_deviation median center_of_mass extrema", "image"),
]
CURVE = ("grid", "curve", "between")
ELSEWHERE = [
    row("differentiate.derivative", exp, "x"),
    row("differentiate.jacobian", lambda v: v**2, "start"),
    row("differentiate.hessian", optimize.rosen, "start"),
    row("interpolate.CubicSpline", *CURVE, call=at(interpolate.CubicSpline)),
    row(
        "interpolate.Akima1DInterpolator",
        *CURVE,
        call=at(interpolate.Akima1DInterpolator),
        in_default_float=True,
        dtypes=("float64",),
    ),
    row("interpolate.make_interp_spline", *CURVE, call=at(interpolate.make_interp_spline)),
    row("interpolate.RegularGridInterpolator", ("grid",), "curve", "between", call=at(interpolate.RegularGridInterpolator)),
    row("spatial.transform.Rotation", "quaternions", "vectors", call=lambda q, v: transform.Rotation.from_quat(q).apply(v)),
    row("spatial.distance.cdist", "m", "n", returns="numpy"),
    row("spatial.distance.pdist", "m"),
]
GROUPS = {
    "stats": STATS,
    "special": SPECIAL,
    "fft": FFT,
    "signal": SIGNAL,
    "cluster": CLUSTER,
    "integrate": INTEGRATE,
    "optimize": OPTIMIZE,
    "linalg": LINALG,
    "ndimage": NDIMAGE,
    "others": ELSEWHERE,
}
KNOWN_TO_FAIL = [
    xfail(
        row("interpolate.PchipInterpolator", *CURVE, call=at(interpolate.PchipInterpolator)),
        "hands a NumPy array to the namespace of the tensor",
        im.ArgumentError,
    ),
    xfail(
        row("interpolate.RBFInterpolator", "m", "n", "n", call=at(interpolate.RBFInterpolator)),
        "calls the method view, which the standard does not have",
        AttributeError,
    ),
    xfail(row("integrate.nsum", lambda v: 1 / v**2, "high", np.inf), "adds int64 to int32 in place", im.DTypeError),
    xfail(
        row("interpolate.Akima1DInterpolator", *CURVE, call=at(interpolate.Akima1DInterpolator), in_default_float=True),
        "assigns float64 to a float32 array",
        im.DTypeError,
        dtype="float32",
    ),
    *(
        xfail(narrowed, "multiplies or divides complex64 by complex128 in place", im.DTypeError, dtype="float32")
        for narrowed in (row("fft.fht", "p", 0.1, 0.5), row("fft.ifht", "p", 0.1, 0.5), row("signal.freqz", "k"))
    ),
]


def check(row: Row, device: im.Device, dtype: str) -> None:
    data = inputs(dtype)
    tensors = {name: im.asarray(value, device=device) for name, value in data.items()}
    with defaults(row, dtype):
        compare(row, row.run(tensors), row.run(data), device, dtype)


@pytest.mark.parametrize(("row", "dtype"), cases(GROUPS), ids=case_name)
def test_a_function_gives_on_tensors_what_it_gives_on_numpy_arrays(row: Row, dtype: str, device: im.Device) -> None:
    check(row, device, dtype)


@pytest.mark.parametrize(("row", "dtype"), KNOWN_TO_FAIL, ids=case_name)
def test_what_is_known_to_fail_still_fails(row: Row, dtype: str, device: im.Device) -> None:
    check(row, device, dtype)
