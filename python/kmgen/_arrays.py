# SPDX-License-Identifier: MIT
"""Points as Python has them (arrays, tables, sparse matrices) as the library takes them, mostly without a copy."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._device import lying_on_device, open_on_device

Doubles = npt.NDArray[np.float64]

_FLOATS = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}
FEATURES_MAX = 65536


def _module(value: object) -> str:
    return type(value).__module__.split(".")[0]


class Points:
    """Points that the library can read, with what keeps their memory alive.

    Attributes
    ----------
    n, d : int
        Number of points and of features.
    names : list of str or None
        Names of the features.
    is_single : bool
        An array of float32.
    device : int or None
        The CUDA device on which they lie; None: on the host.
    """

    def __init__(self, n: int, d: int, names: list[str] | None, make: Callable[[Any, Any], None], keep: Any) -> None:
        self.n, self.d, self.names, self.is_single = n, d, names, False
        self.device: int | None = None
        self._make, self._keep = make, keep

    def open(self, weights: Doubles | None = None) -> Data:
        """Make the library's view of the points, of this thread."""
        handle = ctypes.c_void_p()
        self._make(ctypes.byref(handle), None if weights is None else weights.ctypes.data)
        return Data(handle, self, weights)

    def blocks(self, rows_at_a_time: int) -> Any:
        """Iterate over the points as dense float64 arrays of some rows each."""
        out = np.empty((min(rows_at_a_time, self.n), self.d))
        with self.open() as data:
            for first in range(0, self.n, rows_at_a_time):
                count = min(rows_at_a_time, self.n - first)
                lib.call("km_data_read", out.ctypes.data, data.handle, first, count, 1)
                if not np.isfinite(out[:count]).all():
                    row, column = np.argwhere(~np.isfinite(out[:count]))[0]
                    value = "infinite" if np.isinf(out[row, column]) else "missing (NaN)"
                    raise ValueError(
                        f"X: row {first + row + 1}, column {column + 1}: the value is {value}; leave such rows out"
                    )
                yield first, out[:count]


class Data:
    """An opened km_data. A context manager: it is closed at the end of the block."""

    def __init__(self, handle: ctypes.c_void_p, points: Points, weights: Doubles | None) -> None:
        self.handle, self._points, self._weights = handle, points, weights
        if points.names is not None:
            names = (ctypes.c_char_p * points.d)(*[name.encode(errors="replace") for name in points.names])
            try:
                lib.call("km_data_set_names", handle, names)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        lib.dll.km_data_destroy(ctypes.byref(self.handle))

    def __enter__(self) -> Data:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_shape(n: int, d: int, minimum: int, who: str) -> None:
    if n < minimum:
        raise ValueError(
            f"Found array with {n} sample(s) (shape=({n}, {d})) while a minimum of {minimum} is required by {who}."
        )
    if d < 1:
        raise ValueError(f"Found array with 0 feature(s) (shape=({n}, {d})) while a minimum of 1 is required by {who}.")


def _from_array(array: npt.NDArray[Any], names: list[str] | None) -> Points:
    """Take a two-dimensional float array as it lies: any strides of whole elements."""
    n, d = array.shape
    size = array.itemsize
    whole = all(s % size == 0 for s in array.strides) and array.flags.aligned
    apart = all(s != 0 for s, count in zip(array.strides, array.shape) if count > 1)
    if not (whole and apart and array.dtype.isnative):
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    rows, columns = (0, 0) if array.flags.c_contiguous else (array.strides[0] // size, array.strides[1] // size)
    if columns != 0 or rows != 0:  # strides of one row or column say nothing
        rows, columns = rows or 1, columns or 1
    kind, base = _FLOATS[array.dtype], array.ctypes.data

    def make(out: Any, weights: Any) -> None:
        lib.call("km_data_from_memory", out, base, n, d, kind, rows, columns, weights)

    points = Points(n, d, names, make, array)
    points.is_single = kind == 0
    return points


def to_float(column: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Convert to float32 or float64, without a copy where it is one of them."""
    if column.dtype in _FLOATS:
        return column
    if column.dtype.kind in "mM":
        raise ValueError(
            f"{name} holds dates or times ({column.dtype}); leave it out, or make numbers of it, e.g. days: "
            '(x - x.min()) / np.timedelta64(1, "D")'
        )
    if column.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is {column.dtype}; take real and imaginary parts apart.")
    if column.dtype.kind in "biu" or column.dtype.kind == "f":
        exact = column.dtype.itemsize <= 2 or column.dtype.kind == "b"
        return column.astype(np.float32 if exact else np.float64)
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_numbers(name, error) from None


def _no_numbers(name: str, error: Exception) -> Exception:
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{name} does not hold numbers ({error}); leave it out, or make numbers of it")


def _from_columns(columns: Sequence[npt.NDArray[Any]], names: list[str] | None) -> Points:
    """Take columns that lie apart: without a copy where all have one type and one stride."""
    floats = [to_float(c, f"column {names[f] if names else f}") for f, c in enumerate(columns)]
    n, d = len(floats[0]), len(floats)
    dtype = np.dtype(np.float32) if all(c.dtype == np.float32 for c in floats) else np.dtype(np.float64)
    floats = [np.ascontiguousarray(c, dtype=dtype) for c in floats]
    pointers = (ctypes.c_void_p * d)(*[c.ctypes.data for c in floats])
    kind = _FLOATS[dtype]

    def make(out: Any, weights: Any) -> None:
        lib.call("km_data_from_columns", out, pointers, n, d, kind, 0, weights)

    return Points(n, d, names, make, (floats, pointers))


def _from_csr(matrix: Any, who: str) -> Points:
    """Take a SciPy sparse matrix: CSR with float values as it lies, other formats converted."""
    csr = matrix.tocsr()
    if csr.ndim != 2:
        raise ValueError(f"Expected 2D array, got {csr.ndim}D sparse array instead.")
    n, d = csr.shape
    _check_shape(n, d, 1, who)
    starts = np.ascontiguousarray(csr.indptr, dtype=np.int64)
    entries = min(len(csr.indices), len(csr.data))
    if len(starts) != n + 1 or starts[0] != 0 or starts[-1] > entries or (np.diff(starts) < 0).any():
        raise ValueError(f"X: indptr of a sparse matrix must rise from 0 to at most its {entries} entries, by rows")
    if not csr.has_canonical_format:  # SciPy reads whatever indptr says
        csr = csr.copy()
        csr.sum_duplicates()
        starts = np.ascontiguousarray(csr.indptr, dtype=np.int64)
    indices = np.ascontiguousarray(csr.indices)
    if indices.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        indices = indices.astype(np.int64)
    values = np.ascontiguousarray(to_float(csr.data, "the sparse matrix"))
    kind, bytes_ = _FLOATS[values.dtype], indices.itemsize

    def make(out: Any, weights: Any) -> None:
        lib.call(
            "km_data_from_csr", out, starts.ctypes.data, indices.ctypes.data, bytes_, values.ctypes.data, kind, n, d,
            weights,
        )  # fmt: skip

    return Points(n, d, None, make, (starts, indices, values))


def column_names(table: Any) -> list[str] | None:
    """Find the names of a table's columns; None where it has none, or they are no texts."""
    module = _module(table)
    if module == "pyarrow" and hasattr(table, "column_names"):
        return [str(name) for name in table.column_names]
    columns = getattr(table, "columns", None)
    if module not in ("pandas", "polars") and not hasattr(table, "__dataframe__"):
        return None
    if columns is None:
        return None
    names = list(columns)
    texts = sum(isinstance(name, str) for name in names)
    if texts == 0:
        return None
    if texts != len(names):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{sorted({type(name).__name__ for name in names})} as feature name / column name types. Convert them to "
            "strings: X.columns = X.columns.astype(str)."
        )
    return [str(name) for name in names]


def _from_pandas(table: Any, names: list[str] | None) -> Points:
    kinds = set(table.dtypes)
    if len(kinds) == 1 and next(iter(kinds)) in _FLOATS:
        return _from_array(table.to_numpy(), names)  # one block: no copy, mostly by columns
    columns = []
    for f in range(table.shape[1]):
        column, name = table.iloc[:, f], f"column {names[f] if names else f}"
        if str(column.dtype) in ("category", "str", "string", "object"):
            to_float(np.asarray(column), name)
        if column.dtype.kind in "mM":  # with a time zone they would become numbers
            to_float(np.empty(0, "M8[ns]"), name)
        missing = hasattr(column.dtype, "na_value") and not isinstance(column.dtype, np.dtype)
        try:
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan) if missing else column.to_numpy())
        except (TypeError, ValueError) as error:
            raise _no_numbers(name, error) from None
    return _from_columns(columns, names)


def _from_polars(table: Any, names: list[str] | None) -> Points:
    # Missing values become NaN, which the library refuses with row and column.
    columns = [series.to_numpy() for series in table.get_columns()]
    return _from_columns(columns, names)


def _from_arrow(table: Any, names: list[str] | None) -> Points:
    if hasattr(table, "combine_chunks"):
        columns_of = table.columns
    else:  # a record batch
        import pyarrow  # type: ignore[import-untyped, unused-ignore]

        columns_of = pyarrow.Table.from_batches([table]).columns
    columns = []
    for column in columns_of:
        chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        columns.append(np.asarray(chunk.to_numpy(zero_copy_only=False)))
    return _from_columns(columns, names)


def _from_device(array: Any) -> Points | None:
    """Take an array on a GPU as it lies; None: it is none."""
    found = lying_on_device(array)
    if found is None:
        return None
    n, d = found.shape
    points = Points(n, d, None, lambda out, weights: open_on_device(out, found, weights), found)
    points.is_single, points.device = found.type == "float32", found.device
    return points


def _is_exchanged(points: Any) -> bool:
    """Tell whether DLPack is the only way to an array of the host."""
    ways = ("__array__", "__array_interface__", "__array_struct__", "__len__")
    return (
        hasattr(points, "__dlpack__") and hasattr(np, "from_dlpack") and not any(hasattr(points, way) for way in ways)
    )


def take(points: Any, who: str, minimum: int = 1) -> Points:
    """Take points of any kind that the package knows.

    Parameters
    ----------
    points : array, table or sparse matrix of shape (n, d)
        NumPy array (float32 and float64 in any order of memory are not copied), pandas, polars or pyarrow table,
        SciPy sparse matrix, an array on a GPU, or what NumPy makes a two-dimensional array of numbers of.
    who : str
        The caller, for messages.
    minimum : int
        Least number of points.
    """
    if isinstance(points, Points):
        return points
    module = _module(points)
    if hasattr(points, "tocsr"):
        return _from_csr(points, who)
    on_device = _from_device(points)
    if on_device is not None:
        _check_shape(on_device.n, on_device.d, minimum, who)
        return on_device
    if module == "polars" and hasattr(points, "collect"):
        raise ValueError("Expected 2D array, got a LazyFrame of polars instead; collect() makes a table of it.")
    names = column_names(points)
    if module in ("pandas", "polars", "pyarrow") and hasattr(points, "columns") and len(points.shape) == 2:
        _check_shape(points.shape[0], points.shape[1], minimum, who)
        if module == "pandas":
            return _from_pandas(points, names)
        return _from_polars(points, names) if module == "polars" else _from_arrow(points, names)
    if isinstance(points, (str, bytes, os.PathLike)):
        raise ValueError(
            f"Expected 2D array, got {points!r} instead; read the file first, e.g. by numpy.load or pandas.read_csv."
        )
    if isinstance(points, np.ma.MaskedArray) and np.ma.is_masked(points):
        points = np.ma.filled(points.astype(np.float64), np.nan)  # which is refused
    array = np.asarray(points) if not _is_exchanged(points) else np.from_dlpack(points)
    if array.dtype.names is not None:
        raise ValueError("Expected 2D array, got a structured array instead; pandas.DataFrame(X) makes a table of it.")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {'scalar' if array.ndim == 0 else f'{array.ndim}D'} array instead"
            f"{'' if array.ndim == 0 else f' of shape {array.shape}'}. "
            "Reshape your data using array.reshape(-1, 1) if it has a single feature, or array.reshape(1, -1) if it "
            "is a single sample."
        )
    _check_shape(array.shape[0], array.shape[1], minimum, who)
    return _from_array(to_float(array, "the array"), names)


def take_weights(weights: Any, n: int) -> Doubles | None:
    """Take weights of n points as doubles; None where all are 1."""
    if weights is None:
        return None
    array = to_float(np.asarray(weights), "sample_weight")
    array = np.full(n, float(array)) if array.ndim == 0 else np.ascontiguousarray(array, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {array.ndim}D array.")
    if len(array) != n:
        raise ValueError(f"sample_weight.shape == {array.shape}, expected ({n},)!")
    if n and not array.any():
        raise ValueError("sample_weight: all weights are zero; at least one must be more")
    return None if n and bool((array == 1).all()) else array
