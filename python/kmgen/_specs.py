# SPDX-License-Identifier: MIT
"""The generator: a spec, its plan for people, and the source that is emitted for it."""

from __future__ import annotations

import ctypes
import math
import os
from typing import Any, NamedTuple

from . import _library as lib
from ._call import choose
from ._fit import METRICS, clusters_text, real, whole

__all__ = ["Source", "Spec", "emit", "explain"]

_TYPES = {"float32": 0, "float64": 1}


class Spec(NamedTuple):
    """What is wanted of an emitted kernel (docs/spec.md).

    Parameters
    ----------
    features : int
        Features of a point.
    clusters : str, range, list of int or int
        The list of K.
    type : {"float32", "float64"}
        Element type of the points.
    target : str
        ``"auto"``, ``"cpu"``, ``"cpu:avx2"``, ``"cuda"``, ``"cuda:sm_90"`` and so on.
    n_init : int
        Restarts of each K.
    layout : {"auto", "dense", "csr"}
        How points lie.
    name : str
        A C identifier, which names files and kernels.
    fixed : dict of str to int or str, optional
        Plan numbers that are fixed, e.g. ``{"block": 256}`` or ``{"design": "tiled"}``.
    max_iter : int
        Updates of a run, at most.
    tol : float
        A run stops when the centroids' squared shift is at most this times the mean variance of the features.
    metric : {"euclidean", "cosine"}
        What is near.
    """

    features: int
    clusters: Any
    type: str = "float32"
    target: str = "auto"
    n_init: int = 10
    layout: str = "auto"
    name: str = "kmeans"
    fixed: dict[str, Any] | None = None
    max_iter: int = 300
    tol: float = 1e-4
    metric: str = "euclidean"

    def to_yaml(self) -> str:
        """Write the spec as the text of a file that the program reads.

        Returns
        -------
        str
            YAML.

        Raises
        ------
        ValueError, TypeError
            A field is wrong.
        """
        with _Opened(self) as raw:
            return lib.take_text("km_spec_to_yaml", ctypes.byref(raw))


class _Opened:
    """A km_spec of a Spec, or of the text of one."""

    def __init__(self, spec: Spec | str) -> None:
        self._spec, self._raw = spec, lib.Spec()

    def __enter__(self) -> Any:
        raw, spec = self._raw, self._spec
        here = ctypes.byref(raw)
        lib.dll.km_spec_init(here)
        try:
            if isinstance(spec, str):
                text = spec.encode()
                lib.call("km_spec_parse", here, text, len(text), b"spec")
                return raw
            if not isinstance(spec, Spec):
                raise TypeError(f"a spec is a kmgen.Spec, or the text of one; got {spec!r}")
            name = spec.name.encode() if isinstance(spec.name, str) else b""
            if not str(spec.name).isidentifier() or not 0 < len(name) < lib.Spec.name.size:
                raise ValueError(f"name must be a C identifier of less than 64 letters; got {spec.name!r}")
            raw.name, raw.features = name, whole("features", spec.features, 1, 2**31 - 1)
            raw.n_init = whole("n_init", spec.n_init, 1)
            raw.max_iter = whole("max_iter", spec.max_iter, 1)
            raw.tol = real("tol", spec.tol)
            if not 0 <= raw.tol < math.inf:
                raise ValueError(f"tol must be 0 or more; got {spec.tol!r}")
            raw.type = choose("type", spec.type, _TYPES)
            raw.metric = choose("metric", spec.metric, METRICS)
            lib.call("km_spec_set_clusters", here, clusters_text(spec.clusters).encode())
            lib.call("km_spec_set_target", here, str(spec.target).encode())
            lib.call("km_spec_set_layout", here, str(spec.layout).encode())
            for number, value in dict(spec.fixed or {}).items():
                lib.call("km_spec_fix", here, str(number).encode(), str(value).encode())
        except BaseException:
            lib.dll.km_spec_clear(here)
            raise
        return raw

    def __exit__(self, *_: object) -> None:
        lib.dll.km_spec_clear(ctypes.byref(self._raw))


class _Planned:
    """A km_plan of a spec, for the nominal device of its target."""

    def __init__(self, spec: Spec | str, points: int) -> None:
        self._spec, self._points, self._raw = spec, points, lib.Plan()

    def __enter__(self) -> Any:
        params = lib.PlanParams()
        lib.dll.km_plan_params_init(ctypes.byref(params))
        params.points = whole("points", self._points, 0)
        lib.dll.km_plan_init(ctypes.byref(self._raw))
        with _Opened(self._spec) as spec:
            lib.call("km_plan_make", ctypes.byref(self._raw), ctypes.byref(spec), ctypes.byref(params))
        return self._raw

    def __exit__(self, *_: object) -> None:
        lib.dll.km_plan_clear(ctypes.byref(self._raw))


class Source(NamedTuple):
    """Emitted text.

    Attributes
    ----------
    text : str
        The kernels with their host part, in C or CUDA C.
    file_name : str
        The name that the text expects.
    header : str or None
        The C interface, for programs without kmgen.
    header_name : str
        Its name.
    """

    text: str
    file_name: str
    header: str | None
    header_name: str

    def write(self, folder: str) -> list[str]:
        """Write text and header into a folder.

        Parameters
        ----------
        folder : str
            A folder that is there; files of these names are replaced.

        Returns
        -------
        list of str
            Paths of the files.

        Raises
        ------
        OSError
            A file cannot be written.
        """
        parts = [(self.file_name, self.text)] + ([(self.header_name, self.header)] if self.header else [])
        paths = []
        for name, text in parts:
            paths.append(os.path.join(folder, name))
            lib.call("km_text_write", lib.path_of(paths[-1]), text.encode())
        return paths


def explain(spec: Spec | str, *, points: int = 0) -> str:
    """Tell the plan of a spec: every number with its reason, and what each design is estimated to cost.

    Parameters
    ----------
    spec : Spec or str
        The spec, or its YAML text.
    points : int
        Number of points; 0: unknown, many.

    Returns
    -------
    str
        A table for people.

    Raises
    ------
    ValueError, TypeError
        The spec is wrong (of a text line and column are named), or no design can do it.
    """
    with _Planned(spec, points) as plan:
        return lib.take_text("km_plan_explain", ctypes.byref(plan))


def emit(spec: Spec | str, *, points: int = 0) -> Source:
    """Emit the source of a spec, byte for byte the same each time.

    Parameters
    ----------
    spec : Spec or str
        The spec, or its YAML text.
    points : int
        Number of points; 0: unknown, many.

    Returns
    -------
    Source
        Text, header, and their names.

    Raises
    ------
    ValueError, TypeError
        The spec is wrong (of a text line and column are named), or no design can do it.
    """
    source = lib.Source()
    lib.dll.km_source_init(ctypes.byref(source))
    try:
        with _Planned(spec, points) as plan:
            lib.call("km_source_emit", ctypes.byref(source), ctypes.byref(plan), None)
        header = ctypes.string_at(source.header).decode() if source.header else None
        text = ctypes.string_at(source.text, source.text_size).decode()
        return Source(text, source.file_name.decode(), header, source.header_name.decode())
    finally:
        lib.dll.km_source_clear(ctypes.byref(source))
