# SPDX-License-Identifier: MIT
"""The generator from Python: specs, plans, emitted text, and the program."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess
import sys

import kmgen
import pytest
from kmgen import _library as lib


def test_emit_and_explain(tmp_path):
    spec = kmgen.Spec(8, range(3, 6), target="cuda:sm_90", name="three")
    source = kmgen.emit(spec)
    assert source.file_name == "three.cu" and source.header_name == "three.h"
    assert "__global__" in source.text and source == kmgen.emit(spec)
    assert [path.rsplit("/", 1)[1] for path in source.write(str(tmp_path))] == ["three.cu", "three.h"]
    assert (tmp_path / "three.cu").read_text() == source.text
    assert "sm_90" in kmgen.explain(spec, points=1000)


def test_yaml_round_trip():
    spec = kmgen.Spec(
        4, "2..6", type="float64", target="cpu:avx2", n_init=3, fixed={"design": "lanes"}, max_iter=20, tol=0.01
    )
    text = spec.to_yaml()
    assert "n_init: 3" in text
    assert "max_iter: 20\ntol: 0.01\n" in text
    assert kmgen.emit(text).text == kmgen.emit(spec).text


@pytest.mark.parametrize(
    "wrong",
    [
        {"clusters": "2..x"},
        {"type": "f16"},
        {"target": "tpu"},
        {"target": None},
        {"fixed": {"nothing": 1}},
        {"fixed": {3: 4}},
        {"name": "a b"},
        {"name": None},
        {"features": 1.5},
        {"features": 10**30},
        {"n_init": 0},
        {"max_iter": 0},
        {"tol": "small"},
        {"tol": -1.0},
    ],
)
def test_wrong_specs(wrong):
    with pytest.raises(ValueError):
        kmgen.explain(kmgen.Spec(**{"features": 4, "clusters": "2..4", **wrong}))


def test_what_is_no_spec():
    for wrong in (None, 3):
        with pytest.raises(TypeError, match=r"a kmgen\.Spec"):
            kmgen.emit(wrong)
    for points in (-1, 1.5, 10**30):
        with pytest.raises(ValueError, match="points must be a whole number"):
            kmgen.explain(kmgen.Spec(4, "2..4"), points=points)


def test_the_program_comes_along():
    out = subprocess.run([sys.executable, "-m", "kmgen", "--version"], check=True, capture_output=True, text=True)
    assert out.stdout.split()[:2] == ["kmgen", kmgen.__version__]


@pytest.mark.parametrize(("which", "place"), [("newest", "cu13"), ("oldest", "cuda_nvrtc")])
def test_nvrtc_of_pypi_is_found(which, place, tmp_path):
    there = pathlib.Path(__file__).parents[2] / "build-nvrtc" / which / "nvidia"
    if not there.is_dir():
        pytest.skip("scripts/test fetches it")
    shutil.copytree(pathlib.Path(kmgen.__file__).parent, tmp_path / "kmgen")
    (tmp_path / "nvidia").symlink_to(there)
    program = [str(tmp_path / "kmgen" / "program"), "info"]
    out = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert f"kmgen/../nvidia/{place}/lib/libnvrtc.so.1" in out


def test_a_field_that_is_not_listed_is_no_field():
    made = [kind() for kind in vars(lib).values() if isinstance(kind, type) and issubclass(kind, ctypes.Structure)]
    assert len(made) > 10
    for struct in made:
        with pytest.raises(AttributeError):
            struct.no_such_field = 1
