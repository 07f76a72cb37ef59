# SPDX-License-Identifier: MIT
"""Parameters of an estimator, by scikit-learn's conventions and without scikit-learn."""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

Self = TypeVar("Self", bound="Parameters")


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a is b or a == b)
    except ValueError:  # arrays
        return False


@functools.cache
def _parameters_of(constructor: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(constructor).parameters
    return {name: p for name, p in found.items() if name != "self"}


class Parameters:
    """Gives what the constructor's parameters say: ``get_params``, ``set_params``, and a short repr."""

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        return _parameters_of(cls.__init__)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters.

        Parameters
        ----------
        deep : bool
            Of no meaning here: no parameter is an estimator.

        Returns
        -------
        dict
            Names and values.
        """
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            There is no parameter of this name.
        """
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {sorted(known)!r}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        parts = []
        for name, parameter in self._parameters().items():
            value = getattr(self, name, parameter.default)
            if not _same(value, parameter.default):
                parts.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def __sklearn_tags__(self) -> Any:
        """Say to scikit-learn what this is; called by scikit-learn only."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="clusterer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64"]),
            input_tags=InputTags(sparse=True, allow_nan=False),
        )
