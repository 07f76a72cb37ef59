# SPDX-License-Identifier: MIT
"""k-means for a whole list of K at once: one read of the points serves every K and every restart.

The library is loaded when a name of it is used first, not by the import.

>>> import numpy as np, kmgen
>>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [20.0], [20.1], [20.2]])
>>> kmgen.find_k(X, clusters="2..4").k
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._errors import CompileError, DeviceError, KmgenWarning, NotFittedError
    from ._estimators import KMeans, KMeansSweep
    from ._find import Answer, find_k
    from ._library import __version__
    from ._results import Model, Plan, Predictor, load
    from ._specs import Source, Spec, emit, explain

__all__ = [
    "Answer",
    "CompileError",
    "DeviceError",
    "KMeans",
    "KMeansSweep",
    "KmgenWarning",
    "Model",
    "NotFittedError",
    "Plan",
    "Predictor",
    "Source",
    "Spec",
    "__version__",
    "emit",
    "explain",
    "find_k",
    "load",
]

_MODULES = {
    "_estimators": ("KMeans", "KMeansSweep"),
    "_errors": ("CompileError", "DeviceError", "KmgenWarning", "NotFittedError"),
    "_find": ("Answer", "find_k"),
    "_library": ("__version__",),
    "_results": ("Model", "Plan", "Predictor", "load"),
    "_specs": ("Source", "Spec", "emit", "explain"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
