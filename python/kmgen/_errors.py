# SPDX-License-Identifier: MIT
"""Exceptions and warnings: the library's sentences, with options of the program written as Python has them."""

from __future__ import annotations

import re
import sys
import warnings

__all__ = ["CompileError", "DeviceError", "KmgenWarning", "NotFittedError"]


# What the program's options, and the library's name of points in memory, are here.
_OPTIONS = [
    (r"^memory: (?=point \d+: a weight)", "sample_weight: "),
    (r"^memory(?=[: ] ?)|(?<= made of )memory(?=, which)", "X"),
    (r"(drop such rows) by --missing drop", r"\1"),
    (r"(fill them in) by --missing mean or median", r"\1 by the column's mean or median"),
    (r", or write nan in place of what was not measured and give --missing drop", ""),
    (r" and name its folder with --compiler", ""),
    (r"look at the data \(--plot\)", "look at the data (plot_clusters)"),
    (r"compare the scores of all K \(--verbose\)", "compare the scores of all K (criteria_)"),
    (r"take another one with -k", "take another one"),
    (r"--columns leaves some out", "or leave some of its columns out"),
    (r"see with --columns what the others say without it", "see what the others say without it"),
    (r"find them with --labels", "find them by labels_"),
    (r"-k (\d+\.\.\d+)", r'clusters="\1"'),
    (r"--n-init (\d+)", r"n_init=\1"),
    (r"--scale (\w+)", r'scale="\1"'),
    (r"--algorithm (\w+)", r'algorithm="\1"'),
    (r"--labels-of (\w+)", r'labels="\1"'),
    (r"--layout dense", "a dense array"),
    (r"--type f(32|64)", r'dtype="float\1"'),
    (r"(?<!\S)-t (\w+)", r'device="\1"'),
]


def in_python(sentence: str) -> str:
    """Write what a sentence of the library says of the program's options as Python has it."""
    for option, here in _OPTIONS:
        sentence = re.sub(option, here, sentence)
    return sentence


class KmgenWarning(UserWarning):
    """The library did what was asked, but the result may not be what was meant."""


class CompileError(RuntimeError):
    """A compiler refused the emitted source, or there is none."""


class DeviceError(RuntimeError):
    """A device, its driver or its compiler is missing or failed."""


class NotFittedError(ValueError, AttributeError):
    """The estimator has no model yet: call ``fit`` first."""


def warn(sentence: str, kind: type[Warning] = KmgenWarning) -> None:
    """Warn of the line of the caller's own code that called the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, kind, stacklevel=level)


def not_fitted(name: str) -> Exception:
    """Make the error for an estimator without a model; where scikit-learn is in use, it is also its own."""
    sentence = f"This {name} instance is not fitted yet; call 'fit' with the points first."
    theirs = sys.modules.get("sklearn.exceptions")
    if theirs is None:
        return NotFittedError(sentence)
    kind: type[Exception] = type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})
    return kind(sentence)


_KINDS: dict[int, type[BaseException]] = {
    1: ValueError,  # usage
    2: ValueError,  # spec
    3: ValueError,  # plan
    4: CompileError,
    5: DeviceError,
    6: ValueError,  # data
    7: MemoryError,
    8: OSError,
    9: KeyboardInterrupt,
}


def from_status(status: int, sentence: str) -> BaseException:
    """Make the exception for a status of the library that is not 0, with its sentence."""
    return _KINDS.get(status, RuntimeError)(in_python(sentence))
