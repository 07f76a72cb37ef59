# SPDX-License-Identifier: MIT
"""scikit-learn's own checks of an estimator, its pipelines, and its path where clusters are empty."""

from __future__ import annotations

import warnings

import kmgen
import numpy as np
import pytest

pytest.importorskip("sklearn")


@pytest.mark.parametrize("estimator", [kmgen.KMeans(n_clusters=3), kmgen.KMeansSweep()], ids=["KMeans", "KMeansSweep"])
def test_check_estimator(estimator):
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert not {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert len(results) >= 40


def test_clone_pipeline_and_search(points):
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    sweep = kmgen.KMeansSweep(clusters=[2, 3, 4], n_init=2)
    assert clone(sweep.fit(points)).get_params() == sweep.get_params()
    pipeline = make_pipeline(StandardScaler(), kmgen.KMeans(3, n_init=2))
    assert len(set(pipeline.fit_predict(points))) == 3
    search = GridSearchCV(pipeline, {"kmeans__n_clusters": [2, 3]}, cv=2).fit(points)
    assert search.best_params_ == {"kmeans__n_clusters": 3}


def test_to_sklearn(points):
    sweep = kmgen.KMeansSweep("2..4", labels="all").fit(points)
    theirs = sweep.to_sklearn()
    assert np.array_equal(theirs.predict(points), sweep.labels_)
    assert np.allclose(theirs.transform(points), sweep.transform(points), atol=1e-4)
    assert sweep.to_sklearn(2).n_clusters == 2
    assert np.array_equal(sweep.to_sklearn(2).labels_, sweep.models_[2].labels)
    with pytest.raises(ValueError, match="not in the list"):
        sweep.to_sklearn(9)


def test_not_fitted_is_theirs(points):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        kmgen.KMeans(2).predict(points)


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly", "elkan", "tiles"])
@pytest.mark.parametrize("weighted", [False, True], ids=["alone", "weights"])
def test_empty_clusters_take_their_path(algorithm, weighted):
    from sklearn.cluster import KMeans

    for seed in range(3):
        draw = np.random.default_rng(seed)
        n, d, k = draw.integers(200, 2000), draw.integers(1, 5), draw.integers(8, 20)
        points = 3 * draw.normal(size=(6, d))[draw.integers(6, size=n)] + draw.normal(size=(n, d))
        start = points[draw.choice(n, k, replace=False)]
        start[:3] += 30 * draw.normal(size=(3, d))
        weights = draw.gamma(2, 1, n) if weighted else None
        nearest = ((points[:, None] - start) ** 2).sum(-1).argmin(1)
        assert len(set(nearest.tolist())) < k
        ours = kmgen.KMeans(k, init=start, tol=0, refine="none", algorithm=algorithm, dtype="float64", threads=1)
        theirs = KMeans(k, init=start, n_init=1, tol=0, algorithm="lloyd").fit(points, sample_weight=weights)
        ours.fit(points, sample_weight=weights)
        assert ours.n_iter_ == theirs.n_iter_
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-12)
