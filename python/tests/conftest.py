# SPDX-License-Identifier: MIT
"""Points that several tests use. Compiled modules stay out of the user's cache."""

from __future__ import annotations

import os

import numpy as np
import pytest

# Before SciPy is there: with it scikit-learn's check_estimator leaves nothing out.
os.environ.setdefault("SCIPY_ARRAY_API", "1")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    os.environ["KMGEN_CACHE_DIR"] = str(folder)


def blobs(n=300, d=3, k=3, seed=0, dtype=np.float32):
    """Clusters far from each other, whose K nobody can miss."""
    draw = np.random.default_rng(seed)
    centers = 20.0 * np.eye(k, d) + np.arange(k)[:, None] * 10.0
    labels = np.arange(n) % k
    return (centers[labels] + draw.normal(size=(n, d))).astype(dtype), labels


def scores(estimator):
    """Criteria of every K, as the library has them."""
    return {k: model.scores for k, model in estimator.models_.items()}


@pytest.fixture
def points():
    return blobs()[0]


@pytest.fixture
def truth():
    return blobs()[1]
