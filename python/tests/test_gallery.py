# SPDX-License-Identifier: MIT
"""The scripts of docs/python run, and pictures can be drawn on axes of the caller's."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import kmgen
import numpy as np
import pytest
from conftest import blobs

plt = pytest.importorskip("matplotlib.pyplot")
GALLERY = pathlib.Path(__file__).parents[2] / "docs" / "python"


@pytest.mark.parametrize(
    ("script", "more", "pictures"),
    [
        ("iris.py", [], ["iris_criteria", "iris_clusters", "iris_silhouette"]),
        ("colours.py", [], ["colours"]),
        ("customers.py", [], ["customers"]),
        ("million.py", ["20000"], ["million"]),
        ("gpu.py", ["20000"], ["gpu"]),
    ],
)
def test_gallery(script, more, pictures, tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    subprocess.run([sys.executable, str(GALLERY / script), str(tmp_path), *more], check=True, capture_output=True)
    for name in pictures:
        pixels = plt.imread(tmp_path / f"{name}.png")
        assert pixels.shape[0] > 150 and len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


def test_pictures_on_given_axes():
    points, _ = blobs(200, 5)
    sweep = kmgen.KMeansSweep("2..5").fit(points)
    figure, axes = plt.subplots(1, 4)
    assert sweep.plot_criteria(["inertia", "bic"], axes=axes[:2])[1] is axes[1]
    assert sweep.plot_clusters(points, k=2, ax=axes[2]) is axes[2]
    assert sweep.plot_silhouette(points, ax=axes[3]) is axes[3]
    assert "principal component 1" in axes[2].get_xlabel() and axes[3].get_title() == "K = 3"
    with pytest.raises(ValueError, match="not in the list"):
        sweep.plot_clusters(points, k=17)
    with pytest.raises(ValueError, match="two of"):
        sweep.plot_clusters(points, features=("x", "y"))
    with pytest.raises(ValueError, match="criteria must be of"):
        sweep.plot_criteria(["elbow"])
    plt.close(figure)
