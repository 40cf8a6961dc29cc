from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn import (
    calibration,
    decomposition,
    discriminant_analysis,
    kernel_approximation,
    linear_model,
    metrics,
    mixture,
    model_selection,
    naive_bayes,
    pipeline,
    preprocessing,
)
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import pairwise

import intermodal as im

from .rows import Returns, Row, case_name, cases, compare, defaults, xfail

METHODS = ("transform", "predict", "predict_proba", "decision_function", "score_samples")
TIMES = ("cv_results_", "refit_time_")


def use(estimator: BaseEstimator, X: Any, *y: Any) -> dict[str, Any]:
    """All that an estimator learns and answers: its fitted attributes and the results of its methods."""
    fitted = clone(estimator).fit(X, *y)
    learnt = {name: value for name, value in vars(fitted).items() if name.endswith("_") and name not in TIMES}
    answers = {method: getattr(fitted, method)(X) for method in METHODS if hasattr(fitted, method)}
    if hasattr(fitted, "inverse_transform"):
        answers["inverse_transform"] = fitted.inverse_transform(answers["transform"])
    return learnt | answers


def estimator(made: BaseEstimator, *inputs: str, of: str = "", **options: Any) -> Row:
    return Row(f"{type(made).__name__}{of and f' ({of})'}", lambda *given: use(made, *given), inputs, {}, **options)


def function(
    call: Callable[..., Any],
    *inputs: Any,
    of: str = "",
    returns: Returns = "tensor",
    in_default_float: bool = False,
    **keywords: Any,
) -> Row:
    return Row(f"{call.__name__}{of and f' ({of})'}", call, inputs, keywords, returns, in_default_float=in_default_float)


def metric(call: Callable[..., Any], *inputs: Any, **keywords: Any) -> Row:
    return function(call, *inputs, returns="number", **keywords)


def inputs(dtype: str) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    classes = np.arange(60) % 3
    X = rng.normal(size=(60, 5)) + classes[:, None]
    target = X @ rng.normal(size=5) + rng.normal(size=60)
    chances = rng.uniform(0.1, 1, (60, 3))
    data = {
        "X": X, "Y": rng.normal(size=(60, 5)), "positive": np.abs(X), "target": target, "targets": X @ rng.normal(size=(5, 2)) + rng.normal(size=(60, 2)),
        "guess": target + rng.normal(size=60), "amount": np.abs(target) + 0.1, "estimate": np.abs(target) + rng.uniform(0.1, 1, 60),
        "chance": rng.uniform(0.05, 0.95, 60), "chances": chances / chances.sum(axis=1, keepdims=True), "kernel": X @ X.T, "weight": rng.uniform(0.5, 2, 60),
    }  # fmt: skip
    return {name: value.astype(dtype) for name, value in data.items()} | {
        "classes": classes,
        "labels": np.where(rng.random(60) < 0.7, classes, rng.integers(0, 3, 60)),
        "truth": classes % 2,
        "belief": np.where(rng.random(60) < 0.7, classes % 2, rng.integers(0, 2, 60)),
        "many": rng.integers(0, 2, (60, 3)),
        "others": rng.integers(0, 2, (60, 3)),
    }


BEST: Returns = {"best_index_": "numpy", "best_score_": "numpy"}
ESTIMATORS = [
    estimator(decomposition.PCA(2, svd_solver="full"), "X", of="full"),
    estimator(decomposition.PCA(2, svd_solver="covariance_eigh"), "X", of="covariance_eigh"),
    estimator(
        decomposition.PCA(2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0), "X", of="randomized"
    ),
    estimator(decomposition.PCA("mle", svd_solver="full"), "X", of="mle"),
    estimator(linear_model.Ridge(solver="svd"), "X", "target"),
    estimator(linear_model.Ridge(solver="svd"), "X", "targets", of="two targets"),
    estimator(linear_model.RidgeCV(), "X", "target"),
    estimator(linear_model.RidgeClassifier(solver="svd"), "X", "classes"),
    estimator(linear_model.RidgeClassifierCV(), "X", "classes"),
    estimator(linear_model.LogisticRegression(C=0.1, tol=1e-12, max_iter=500), "X", "classes", minimised=True),
    estimator(linear_model.LogisticRegression(C=0.1, tol=1e-12, max_iter=500), "X", "truth", of="two classes", minimised=True),
    estimator(linear_model.PoissonRegressor(tol=1e-12, max_iter=500), "X", "amount", minimised=True),
    estimator(discriminant_analysis.LinearDiscriminantAnalysis(), "X", "classes"),
    estimator(naive_bayes.GaussianNB(), "X", "classes"),
    *(
        estimator(
            mixture.GaussianMixture(2, covariance_type=shape, init_params="random_from_data", random_state=0), "X", of=shape
        )
        for shape in ("tied", "diag", "spherical")
    ),
    estimator(mixture.GaussianMixture(2, init_params="random", random_state=0), "X", of="full"),
    estimator(kernel_approximation.Nystroem(n_components=8, random_state=0), "X"),
    estimator(
        calibration.CalibratedClassifierCV(discriminant_analysis.LinearDiscriminantAnalysis(), method="temperature", cv=3),
        "X",
        "classes",
        minimised=True,
        in_default_float=True,
    ),
    estimator(pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge(solver="svd")), "X", "target"),
    estimator(pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2)), "X"),
    estimator(
        model_selection.GridSearchCV(linear_model.Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, cv=2), "X", "target", returns=BEST
    ),
    estimator(
        model_selection.RandomizedSearchCV(
            linear_model.Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0
        ),
        "X",
        "target",
        returns=BEST,
    ),
]
PREPROCESSING = [
    estimator(preprocessing.StandardScaler(), "X"),
    estimator(preprocessing.MinMaxScaler(), "X"),
    estimator(preprocessing.MaxAbsScaler(), "X"),
    *(estimator(preprocessing.Normalizer(norm), "X", of=norm) for norm in ("l1", "l2", "max")),
    estimator(preprocessing.Binarizer(threshold=0.5), "X"),
    estimator(preprocessing.KernelCenterer(), "kernel"),
    estimator(preprocessing.PolynomialFeatures(2), "X"),
    estimator(preprocessing.LabelEncoder(), "labels"),
    estimator(preprocessing.LabelBinarizer(), "labels"),
    function(preprocessing.normalize, "X"),
    function(preprocessing.binarize, "X", threshold=0.5),
    function(preprocessing.label_binarize, "labels", classes=[0, 1, 2]),
]
CLASSIFICATION = [
    *(metric(call, "truth", "belief", in_default_float=True) for call in (metrics.accuracy_score, metrics.balanced_accuracy_score,
      metrics.cohen_kappa_score, metrics.f1_score, metrics.hamming_loss, metrics.jaccard_score, metrics.precision_score, metrics.recall_score,
      metrics.zero_one_loss)),
    metric(metrics.fbeta_score, "truth", "belief", beta=2, in_default_float=True),
    metric(metrics.f1_score, "labels", "classes", average="macro", of="macro"),
    metric(metrics.f1_score, "many", "others", average="samples", zero_division=1.0, of="samples"),
    function(metrics.precision_recall_fscore_support, "labels", "classes", in_default_float=True),
    function(metrics.confusion_matrix, "labels", "classes"),
    function(metrics.multilabel_confusion_matrix, "many", "others"),
    metric(metrics.average_precision_score, "truth", "chance"),
    metric(metrics.brier_score_loss, "truth", "chance"),
    metric(metrics.d2_brier_score, "truth", "chance"),
    metric(metrics.log_loss, "classes", "chances"),
    metric(metrics.d2_log_loss_score, "classes", "chances", in_default_float=True),
    function(metrics.det_curve, "truth", "chance"),
    function(metrics.precision_recall_curve, "truth", "chance"),
    function(metrics.roc_curve, "truth", "chance", drop_intermediate=False),
    metric(metrics.calinski_harabasz_score, "X", "classes"),
    metric(metrics.davies_bouldin_score, "X", "classes"),
]  # fmt: skip
REGRESSION = [
    *(metric(call, "target", "guess") for call in (metrics.d2_absolute_error_score, metrics.d2_pinball_score, metrics.explained_variance_score,
      metrics.max_error, metrics.mean_absolute_error, metrics.mean_absolute_percentage_error, metrics.mean_pinball_loss, metrics.mean_squared_error,
      metrics.median_absolute_error, metrics.r2_score, metrics.root_mean_squared_error)),
    *(metric(call, "amount", "estimate") for call in (metrics.mean_gamma_deviance, metrics.mean_poisson_deviance, metrics.mean_squared_log_error,
      metrics.root_mean_squared_log_error)),
    metric(metrics.mean_tweedie_deviance, "amount", "estimate", power=1.5),
    metric(metrics.d2_tweedie_score, "amount", "estimate", power=1),
    function(metrics.mean_squared_error, "X", "Y", multioutput="raw_values", of="raw_values"),
]  # fmt: skip
PAIRWISE = [
    *(function(call, "X", "Y") for call in (pairwise.cosine_distances, pairwise.cosine_similarity, pairwise.euclidean_distances, pairwise.laplacian_kernel,
      pairwise.linear_kernel, pairwise.manhattan_distances, pairwise.paired_cosine_distances, pairwise.paired_euclidean_distances,
      pairwise.paired_manhattan_distances, pairwise.polynomial_kernel, pairwise.rbf_kernel, pairwise.sigmoid_kernel, pairwise.pairwise_distances_argmin,
      pairwise.pairwise_distances, pairwise.pairwise_kernels)),
    *(function(call, "positive") for call in (pairwise.additive_chi2_kernel, pairwise.chi2_kernel)),
]  # fmt: skip
SELECTION = [
    function(model_selection.train_test_split, "X", "classes", random_state=0),
    function(model_selection.cross_val_predict, discriminant_analysis.LinearDiscriminantAnalysis(), "X", "classes", cv=3),
    function(
        model_selection.cross_val_score,
        discriminant_analysis.LinearDiscriminantAnalysis(),
        "X",
        "classes",
        cv=3,
        returns="numpy",
        in_default_float=True,
    ),
]
GROUPS = {
    "estimators": ESTIMATORS,
    "preprocessing": PREPROCESSING,
    "classification and clustering metrics": CLASSIFICATION,
    "regression metrics": REGRESSION,
    "pairwise metrics": PAIRWISE,
    "model selection": SELECTION,
}
KNOWN_TO_FAIL = [
    xfail(
        function(metrics.roc_curve, "truth", "chance", of="drop_intermediate"),
        "gives the order of xp.diff by position, which the standard does not allow",
        im.ArgumentError,
    ),
]


def check(row: Row, device: im.Device, dtype: str) -> None:
    data = inputs(dtype)
    tensors = {name: im.asarray(value, device=device) for name, value in data.items()}
    reference = row.run(data)
    with defaults(row, dtype), sklearn.config_context(array_api_dispatch=True):
        result = row.run(tensors)
    compare(row, result, reference, device, dtype)


@pytest.mark.parametrize(("row", "dtype"), cases(GROUPS), ids=case_name)
def test_an_estimator_or_function_gives_on_tensors_what_it_gives_on_numpy_arrays(row: Row, dtype: str, device: im.Device) -> None:
    check(row, device, dtype)


@pytest.mark.parametrize(("row", "dtype"), KNOWN_TO_FAIL, ids=case_name)
def test_what_is_known_to_fail_still_fails(row: Row, dtype: str, device: im.Device) -> None:
    check(row, device, dtype)


@pytest.mark.parametrize(
    "model", [linear_model.Ridge(solver="svd"), linear_model.RidgeCV()], ids=lambda model: type(model).__name__
)
def test_numpy_targets_follow_the_tensor_that_is_learnt_from(model: BaseEstimator, device: im.Device) -> None:
    data = inputs("float64")
    X = im.asarray(data["X"], device=device)
    with sklearn.config_context(array_api_dispatch=True):
        found = use(model, X, data["target"])
    compare(estimator(model), found, use(model, data["X"], data["target"]), device, "float64")


@pytest.mark.parametrize(
    ("labels", "answer"), [([3, 5, 7], im.Tensor), (["ship", "train", "truck"], np.ndarray)], ids=["numbers", "text"]
)
def test_numpy_labels_are_answered_with_a_tensor_unless_they_are_text(labels: list[Any], answer: type, device: im.Device) -> None:
    data = inputs("float64")
    X, y = im.asarray(data["X"], device=device), np.asarray(labels)[data["classes"]]
    with sklearn.config_context(array_api_dispatch=True):
        model = linear_model.LogisticRegression().fit(X, y)
        found = model.predict(X)
    assert (type(model.coef_), type(found)) == (im.Tensor, answer)
    np.testing.assert_array_equal(found, linear_model.LogisticRegression().fit(data["X"], y).predict(data["X"]))


def test_a_metric_follows_the_prediction_when_the_truth_is_a_numpy_array(device: im.Device) -> None:
    data = inputs("float64")
    row = function(metrics.r2_score, multioutput="raw_values")
    with sklearn.config_context(array_api_dispatch=True):
        found = row.call(data["targets"], im.asarray(data["targets"] + 1, device=device), **row.keywords)
    compare(row, found, row.call(data["targets"], data["targets"] + 1, **row.keywords), device, "float64")


def test_without_dispatch_a_tensor_is_taken_as_a_numpy_array(device: im.Device) -> None:
    data = inputs("float64")
    found = preprocessing.StandardScaler().fit_transform(im.asarray(data["X"], device=device))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, preprocessing.StandardScaler().fit_transform(data["X"]))
