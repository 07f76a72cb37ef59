# SPDX-License-Identifier: MIT
"""The scripts of docs/python run, and pictures can be drawn on axes of the caller's."""

from __future__ import annotations

import os
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
    # The short form of scripts/test runs one that plots, and one of a GPU's points.
    if script in ("colours.py", "customers.py", "million.py") and not os.environ.get("KMGEN_TEST_ALL"):
        pytest.skip("scripts/test --all runs it")
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    subprocess.run([sys.executable, str(GALLERY / script), str(tmp_path), *more], check=True, capture_output=True)
    for name in pictures:
        pixels = plt.imread(tmp_path / f"{name}.png")
        assert pixels.shape[0] > 150 and len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


def test_pictures_on_given_axes():
    points, _ = blobs(200, 5)
    sweep = kmgen.KMeansSweep("2..5").fit(points)
    axes = plt.subplots(1, 4)[1]
    assert sweep.plot_criteria(["inertia", "bic"], axes=axes[:2])[1] is axes[1]
    assert sweep.plot_clusters(points, k=2, ax=axes[2]) is axes[2]
    assert sweep.plot_silhouette(points, ax=axes[3]) is axes[3]
    assert "principal component 1" in axes[2].get_xlabel() and axes[3].get_title() == "K = 3"
    with pytest.raises(ValueError, match="not in the list"):
        sweep.plot_clusters(points, k=17)
    with pytest.raises(ValueError, match="two of"):
        sweep.plot_clusters(points, features=("x", "y"))
    for wrong in ((0, True), 3, (0.0, 1.0), "01"):
        with pytest.raises(ValueError, match="two of"):
            sweep.plot_clusters(points, features=wrong)
    for wrong in (["elbow"], []):
        with pytest.raises(ValueError, match="criteria must be of"):
            sweep.plot_criteria(wrong)
    with pytest.raises(ValueError, match=r'gap was not computed.*criteria=\["gap"\]'):
        sweep.plot_criteria("gap")
    with pytest.raises(ValueError, match="4 criteria need as many axes; got 2"):
        sweep.plot_criteria(axes=axes[:2])
    grid = plt.subplots(2, 2)[1]
    assert sweep.plot_criteria(axes=grid)[3] is grid[1, 1]
    sweep.plot_clusters(points[:1], ax=axes[2])
    plt.close("all")


def test_pictures_look_at_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(blobs()[0], columns=["x", "y", "z"])
    sweep = kmgen.KMeansSweep("2..4").fit(table)
    assert sweep.plot_clusters(table, features=("z", "x")).get_xlabel() == "z"
    with pytest.raises(ValueError, match="same order"):
        sweep.plot_clusters(table[["z", "y", "x"]])
    plt.close("all")
