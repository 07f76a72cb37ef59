# SPDX-License-Identifier: MIT
"""One fit: parameters as the library takes them."""

from __future__ import annotations

import ctypes
import numbers
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _library as lib
from ._arrays import Doubles, Points, to_float
from ._call import Watch, choose, new_params, set_device
from ._errors import warn
from ._results import Result

SCALES = {None: 0, "none": 0, "standard": 1, "minmax": 2, "robust": 3, "unit": 4}
METRICS = {"euclidean": 0, "cosine": 1}
_INITS = {"k-means++": 0, "random": 1}
_DTYPES = {"float32": 0, "float64": 1}
_LABELS = {"best": 1, "all": 2}


def seed_of(random_state: Any) -> int:
    """Make the library's seed of an int, None, a RandomState or a Generator."""
    if random_state is None:
        return int(np.random.randint(0, 2**31 - 1))  # noqa: NPY002 (scikit-learn's meaning of None)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**63 - 1))
    if isinstance(random_state, numbers.Integral) and 0 <= int(random_state) < 2**64:
        return int(random_state)
    raise ValueError(f"random_state must be an int from 0 to 2**64 - 1, None or a RandomState; got {random_state!r}")


def clusters_text(clusters: Any) -> str:
    """Write a list of K as a spec does; texts are taken as they are."""
    if isinstance(clusters, str):
        return clusters
    if isinstance(clusters, numbers.Integral) and not isinstance(clusters, bool):
        return str(int(clusters))
    if not isinstance(clusters, Iterable) or isinstance(clusters, (bytes, bytearray)):
        raise ValueError(f"clusters must be a list of K, a range, a K or a text like '2..12'; got {clusters!r}")
    listed = list(clusters)
    if not all(isinstance(k, numbers.Integral) and not isinstance(k, bool) for k in listed):
        raise ValueError(f"clusters must hold whole numbers; got {listed!r}")
    return "[" + ", ".join(str(k) for k in sorted({int(k) for k in listed})) + "]"


def _pointer(text: bytes | None, keep: list[Any]) -> Any:
    if text is None:
        return None
    keep.append(ctypes.c_char_p(text))
    return ctypes.cast(keep[-1], ctypes.c_void_p)


def _criteria_bits(names: Any) -> int:
    if names is None:
        return 0
    if not isinstance(names, Iterable):
        raise ValueError(f"criteria must be a list of names, 'all' or None; got {names!r}")
    listed = [names] if isinstance(names, str) else list(names)
    if listed == ["all"]:
        return (1 << len(lib.CRITERIA)) - 1
    numbers_of = {c: i for i, c in enumerate(lib.CRITERIA)}
    return sum(1 << int(choose("each of criteria", name, numbers_of)) for name in {*listed})


def criterion_of(name: Any) -> int:
    """Number of a criterion; "auto" is -1."""
    return int(choose("criterion", name, {"auto": -1, **{c: i for i, c in enumerate(lib.CRITERIA)}}))


def whole(what: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Check that a parameter is a whole number that the library takes."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or int(value) < least:
        raise ValueError(f"{what} must be a whole number of at least {least}; got {value!r}")
    if int(value) > most:
        raise ValueError(f"{what} must be a whole number of at most {most}; got {value!r}")
    return int(value)


def _type(dtype: Any) -> int:
    try:
        name = dtype if isinstance(dtype, str) and dtype in _DTYPES else np.dtype(dtype).name
    except TypeError:
        name = None
    if dtype is None or name not in _DTYPES:
        raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}")
    return _DTYPES[name]


def real(what: str, value: Any) -> float:
    if not isinstance(value, numbers.Real):
        raise ValueError(f"{what} must be a number; got {value!r}")
    return float(value)


def _seconds(time_max: Any) -> float:
    if time_max is None:
        return 0.0
    if not isinstance(time_max, numbers.Real) or not float(time_max) > 0:
        raise ValueError(f"time_max must be a number of seconds, more than 0, or None; got {time_max!r}")
    return float(time_max)


def _set_init(params: Any, init: Any, d: int, keep: list[Any]) -> bool:
    """Set where first centroids come from; True: they are given."""
    if isinstance(init, str):
        params.init = choose("init", init, _INITS)
        return False
    if init is None or np.ndim(init) == 0:
        raise ValueError(f"init must be 'k-means++', 'random' or an array of first centroids; got {init!r}")
    rows = np.ascontiguousarray(to_float(np.asarray(init), "init"), dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ValueError(f"init must have a row for each centroid and {d} columns; got an array of shape {rows.shape}")
    keep.append(rows)
    params.init, params.init_rows, params.init_count = 2, rows.ctypes.data, len(rows)
    return True


def _set_refine(spec: Any, refine: Any) -> None:
    text = "none" if refine is None else str(refine)
    lib.call("km_spec_set_refine", ctypes.byref(spec), text.encode())


def _n_init(n_init: Any, init: Any, given: bool) -> int:
    if isinstance(n_init, str) and n_init == "auto":  # scikit-learn's word
        return 10 if isinstance(init, str) and init == "random" else 1
    count = whole("n_init", n_init, 1)
    return 1 if given else count


def _cache_folder(given: str | None) -> str | None:
    folder = given if given is not None else lib.default_cache_folder()
    if folder is None or folder in _usable:
        return folder
    try:
        lib.call("km_cache_check", lib.path_of(folder))
    except (OSError, ValueError) as error:
        if given is not None:
            raise
        if folder not in _unusable:
            _unusable.add(folder)
            warn(f"nothing is cached: {error}")
        return None
    _usable.add(folder)
    return folder


_usable: set[str] = set()
_unusable: set[str] = set()


def run(points: Points, weights: Doubles | None, o: dict[str, Any], clusters: Any) -> Result:
    """Fit points with an estimator's parameters.

    Parameters
    ----------
    points : Points
        The points.
    weights : ndarray of float64 of shape (n,) or None
        Weights of the points.
    o : dict
        What ``KMeansSweep.get_params`` gives.
    clusters : list, range, int or str
        The list of K.
    """
    keep: list[Any] = []
    params, spec = new_params(o["threads"]), lib.Spec()
    lib.dll.km_spec_init(ctypes.byref(spec))
    try:
        given = _set_init(params, o["init"], points.d, keep)
        lib.call("km_spec_set_clusters", ctypes.byref(spec), clusters_text(clusters).encode())
        _set_refine(spec, o["refine"])
        set_device(params, spec, o["device"])
        spec.n_init = _n_init(o["n_init"], o["init"], given)
        spec.type = _type(o["dtype"])
        spec.max_iter = whole("max_iter", o["max_iter"], 1)
        spec.tol = real("tol", o["tol"])
        params.scale = choose("scale", o["scale"], SCALES)
        spec.metric = choose("metric", o["metric"], METRICS)
        params.seed = seed_of(o["random_state"])
        params.criterion = criterion_of(o["criterion"])
        params.criteria = _criteria_bits(o["criteria"])
        params.labels = choose("labels", o["labels"], _LABELS)
        params.algorithm = choose("algorithm", o["algorithm"], {n: i for i, n in enumerate(lib.ALGORITHMS)})
        for name in ("memory_max", "device_memory_max"):
            setattr(params, name, 0 if o[name] is None else whole(name, o[name], 1))
        params.scratch_dir = _pointer(None if o["scratch_dir"] is None else lib.path_of(o["scratch_dir"]), keep)
        cache, tuning = _cache_folder(o["cache_dir"]), lib.default_tuning_folder()
        params.cache_dir = _pointer(None if cache is None else lib.path_of(cache), keep)
        params.tuning_dir = _pointer(None if tuning is None else os.fsencode(tuning), keep)
        result = _run(points, weights, spec, params, o)
    finally:
        lib.dll.km_spec_clear(ctypes.byref(spec))
    for sentence in result.warnings:
        warn(sentence)
    return result


def _run(points: Points, weights: Doubles | None, spec: Any, params: Any, o: dict[str, Any]) -> Result:
    handle = ctypes.c_void_p()
    verbose = int(o["verbose"]) if isinstance(o["verbose"], bool) else whole("verbose", o["verbose"], 0)
    watch = Watch(params, verbose, _seconds(o["time_max"]))
    try:
        with points.open(weights) as data:
            lib.call("km_fit", ctypes.byref(handle), ctypes.byref(spec), data.handle, ctypes.byref(params))
    finally:
        watch.close()
    return Result(handle)
