# SPDX-License-Identifier: MIT
"""k-means for a whole list of K at once: one read of the points serves every K and every restart.

>>> import numpy as np, kmgen
>>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [20.0], [20.1], [20.2]])
>>> kmgen.find_k(X, clusters="2..4").k
3
"""

from ._clusterers import KMeans, KMeansSweep
from ._errors import CompileError, DeviceError, KmgenWarning, NotFittedError
from ._find import Answer, find_k
from ._library import version as _version
from ._results import Model, Plan, Predictor, load
from ._specs import Source, Spec, emit, explain

__version__ = _version()
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
