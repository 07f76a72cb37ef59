# SPDX-License-Identifier: MIT
"""Exceptions and warnings, with the library's sentences (base/wording.h says what they call things here)."""

from __future__ import annotations

import sys
import warnings

__all__ = ["CompileError", "DeviceError", "KmgenWarning", "NotFittedError"]


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
    return _KINDS.get(status, RuntimeError)(sentence)
