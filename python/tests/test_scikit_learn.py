# SPDX-License-Identifier: MIT
"""scikit-learn's own checks of an estimator, and its pipelines."""

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
