# SPDX-License-Identifier: MIT
"""Which columns of a table are features where nobody has chosen: as the program decides for tables that it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._arrays import _module, column_names, to_float

_RISING_ROWS_MIN = 16  # fewer rows than these prove nothing by rising
_SHOWN = 12  # names of a list


def _column(table: Any, f: int) -> Any:
    """Read a column as NumPy has it; None: it holds dates or times."""
    module = _module(table)
    if module == "polars":
        column = table.to_series(f)
        return None if column.dtype.is_temporal() else column.to_numpy()
    if module == "pyarrow":
        import pyarrow  # type: ignore[import-untyped, unused-ignore]

        column = table.column(f)
        return None if pyarrow.types.is_temporal(column.type) else np.asarray(column)
    column = table.iloc[:, f]
    if column.dtype.kind in "mM":
        return None
    is_nullable = hasattr(column.dtype, "na_value") and column.dtype.kind in "iufb"
    if is_nullable and column.isna().any():
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return column.to_numpy(dtype=column.dtype.numpy_dtype) if is_nullable else np.asarray(column)


def _rises(values: npt.NDArray[Any]) -> bool:
    """Tell whether whole numbers rise from each row to the next."""
    if values.dtype.kind not in "iu" or len(values) < _RISING_ROWS_MIN:
        return False
    first = values[:_RISING_ROWS_MIN]
    return bool((first[1:] > first[:-1]).all() and (values[1:] > values[:-1]).all())


def _kind(values: Any, name: str) -> str:
    """Tell what a column holds: "number", "rising", "id", "date", "text"."""
    if values is None or values.dtype.kind in "mM":
        return "date"
    if values.dtype.kind == "b":
        return "number"
    if values.dtype.kind not in "iuf":
        try:
            to_float(values, name)
        except (TypeError, ValueError):
            return "text"
        return "number"
    if lib.dll.km_python_name_is_id(name.encode(errors="replace")):
        known = values if values.dtype.kind != "f" else values[np.isfinite(values)]
        if values.dtype.kind != "f" or (len(known) and bool((known == np.floor(known)).all())):
            return "id"
    return "rising" if _rises(values) else "number"


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")


def _keep(table: Any, kept: list[int]) -> Any:
    if _module(table) == "pandas":
        return table.iloc[:, kept]
    return table[:, kept] if _module(table) == "polars" else table.select(kept)


def choose_columns(table: Any) -> tuple[Any, str | None]:
    """Leave out what a table has beside features: ids, dates, texts.

    Parameters
    ----------
    table : object
        A pandas, polars or pyarrow table with names; all else is left as it is.

    Returns
    -------
    table, sentence
        The table of the features, and what was left out of it; None: nothing.
    """
    is_table = _module(table) in ("pandas", "polars", "pyarrow") and len(getattr(table, "shape", ())) == 2
    names = column_names(table) if is_table else None
    if names is None or table.shape[0] == 0:  # of no rows the fit says what is wrong
        return table, None
    kinds = [_kind(_column(table, f), name) for f, name in enumerate(names)]
    has_others = "number" in kinds
    kept = [f for f, kind in enumerate(kinds) if kind == "number" or (kind == "rising" and not has_others)]
    if len(kept) == len(kinds):
        return table, None
    words = {"rising": "id"}
    left = _listed([f"{names[f]} ({words.get(kinds[f], kinds[f])})" for f in range(len(kinds)) if f not in set(kept)])
    if not kept:
        raise ValueError(
            f"the table has no column of numbers that is no id: {left}; make numbers of what matters (of categories by "
            "pandas.get_dummies), and give these columns only"
        )
    return _keep(table, kept), f"features are {_listed([names[f] for f in kept])}; left out: {left}"
