# SPDX-License-Identifier: MIT
"""The C library through ctypes: structs as its compiler laid them out, functions, and errors as exceptions."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ._errors import from_status

_TYPES: dict[str, Any] = {
    "i4": ctypes.c_int32,
    "u4": ctypes.c_uint32,
    "i8": ctypes.c_int64,
    "u8": ctypes.c_uint64,
    "f8": ctypes.c_double,
    "p": ctypes.c_void_p,
}

dll = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_kmgen.so"))


dll.km_python_wording()  # sentences name parameters of this package


def _read_layout() -> dict[str, list[tuple[str, str, int, int]]]:
    dll.km_python_layout.restype = ctypes.c_int64
    dll.km_python_layout.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    size = dll.km_python_layout(None, 0)
    text = ctypes.create_string_buffer(size)
    dll.km_python_layout(text, size)
    layout: dict[str, list[tuple[str, str, int, int]]] = {}
    for line in text.value.decode().splitlines():
        owner, field, kind, offset, bytes_ = line.split()
        layout.setdefault(owner, []).append((field, kind, int(offset), int(bytes_)))
    return layout


def _make_struct(name: str, rows: list[tuple[str, str, int, int]]) -> Any:
    """Make a ctypes struct of the fields that the bridge names; bytes between them are left alone."""
    whole = rows[0][3]
    found: list[tuple[str, Any]] = []
    at = 0
    for field, kind, offset, size in sorted(rows[1:], key=lambda row: row[2]):
        if offset > at:
            found.append((f"_gap{at}", ctypes.c_byte * (offset - at)))
        if kind == "s":
            found.append((field, ctypes.c_char * size))
        elif kind == "x":
            found.append((field, ctypes.c_byte * size))
        else:
            found.append((field, _TYPES[kind]))
        at = offset + size
    if whole > at:
        found.append((f"_gap{at}", ctypes.c_byte * (whole - at)))
    # Without a __dict__: setting a field that the bridge does not name is an AttributeError.
    struct = type(name, (ctypes.Structure,), {"_fields_": found, "__slots__": ()})
    if ctypes.sizeof(struct) != whole:
        raise ImportError(f"{name} has {whole} bytes in C and {ctypes.sizeof(struct)} in Python")
    return struct


_layout = _read_layout()
Error = _make_struct("km_error", _layout["km_error"])
FitParams = _make_struct("km_fit_params", _layout["km_fit_params"])
Log = _make_struct("km_log", _layout["km_log"])
Model = _make_struct("km_model", _layout["km_model"])
Plan = _make_struct("km_plan", _layout["km_plan"])
PlanNumber = _make_struct("km_plan_number", _layout["km_plan_number"])
PlanParams = _make_struct("km_plan_params", _layout["km_plan_params"])
ReportParams = _make_struct("km_report_params", _layout["km_report_params"])
Result = _make_struct("km_result", _layout["km_result"])
Selection = _make_struct("km_selection", _layout["km_selection"])
Source = _make_struct("km_source", _layout["km_source"])
Spec = _make_struct("km_spec", _layout["km_spec"])
Timing = _make_struct("km_timing", _layout["km_timing"])

SHOW = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
LOG_LINE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


def _address(name: str) -> int | None:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


class Progress(ctypes.Structure):
    """The bridge's km_python_progress."""

    __slots__ = ()
    _fields_ = [
        ("lock", ctypes.c_void_p),
        ("unlock", ctypes.c_void_p),
        ("check_signals", ctypes.c_void_p),
        ("fetch", ctypes.c_void_p),
        ("show", ctypes.c_void_p),
        ("every_s", ctypes.c_double),
        ("asked_s", ctypes.c_double),
        ("most_s", ctypes.c_double),
        ("exception", ctypes.c_void_p * 3),
    ]


INTERPRETER = [_address(n) for n in ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")]
# Raises what PyErr_Fetch took.
RESTORE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyErr_Restore", ctypes.pythonapi)
)
ON_PROGRESS = ctypes.cast(dll.km_python_on_progress, ctypes.c_void_p).value

_P, _I, _I4, _T = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_char_p
# Functions that return a status, without the last argument, which is where the error goes.
_STATUS: dict[str, list[Any]] = {
    "km_data_from_memory": [_P, _P, _I, _I, _I4, _I, _I, _P],
    "km_data_from_columns": [_P, _P, _I, _I, _I4, _I, _P],
    "km_data_from_device": [_P, ctypes.c_int, _P, _I, _I, _I4, _P, _P],
    "km_data_from_csr": [_P, _P, _P, _I4, _P, _I4, _I, _I, _P],
    "km_data_set_names": [_P, _P],
    "km_data_read": [_P, _P, _I, _I, _I4],
    "km_fit": [_P, _P, _P, _P],
    "km_predict": [_P, _P, _P, _P],
    "km_predictor_create": [_P, _P, _I],
    "km_predictor_parse": [_P, _T, _I, _T],
    "km_predictor_read": [_P, _T],
    "km_predictor_to_json": [_P, _P],
    "km_predictor_write": [_T, _P, _I],
    "km_plan_make": [_P, _P, _P],
    "km_plan_explain": [_P, _P],
    "km_result_to_json": [_P, _P],
    "km_result_to_table": [_P, _P, _I4, _I4],
    "km_result_report": [_T, _P, _P, _P],
    "km_source_emit": [_P, _P, _T],
    "km_spec_fix": [_P, _T, _T],
    "km_spec_parse": [_P, _T, _I, _T],
    "km_spec_set_clusters": [_P, _T],
    "km_spec_set_layout": [_P, _T],
    "km_spec_set_refine": [_P, _T],
    "km_spec_set_target": [_P, _T],
    "km_spec_to_yaml": [_P, _P],
    "km_text_write": [_T, _T],
    "km_cache_check": [_T],
}
_OTHERS: dict[str, tuple[Any, list[Any]]] = {
    "km_version": (_T, []),
    "km_text_free": (None, [_P]),
    "km_fit_params_init": (None, [_P]),
    "km_spec_init": (None, [_P]),
    "km_spec_clear": (None, [_P]),
    "km_plan_init": (None, [_P]),
    "km_plan_clear": (None, [_P]),
    "km_plan_params_init": (None, [_P]),
    "km_source_init": (None, [_P]),
    "km_source_clear": (None, [_P]),
    "km_report_params_init": (None, [_P]),
    "km_data_destroy": (None, [_P]),
    "km_result_destroy": (None, [_P]),
    "km_predictor_destroy": (None, [_P]),
    "km_predictor_clusters": (_I, [_P]),
    "km_predictor_features": (_I, [_P]),
    "km_criterion_name": (_T, [_I4]),
    "km_criterion_title": (_T, [_I4]),
    "km_criterion_best": (_I4, [_I4]),
    "km_algorithm_name": (_T, [_I4]),
    "km_design_name": (_T, [_I4]),
    "km_device_count": (ctypes.c_int, []),
    "km_python_name_is_id": (ctypes.c_int, [_T]),
}
for _name, _arguments in _STATUS.items():
    getattr(dll, _name).argtypes = [*_arguments, _P]
    getattr(dll, _name).restype = _I4
for _name, (_result, _arguments) in _OTHERS.items():
    getattr(dll, _name).argtypes = _arguments
    getattr(dll, _name).restype = _result


def path_of(path: Any) -> bytes:
    """Write a path as the library takes it; TypeError for what is none."""
    raw = os.fsencode(path)
    if b"\0" in raw:
        raise ValueError(f"a path has no zero byte in it; got {path!r}")
    return raw


def call(name: str, *arguments: Any) -> None:
    """Call a function that returns a status; what is not 0 is raised with the library's sentence."""
    error = Error()
    status = getattr(dll, name)(*arguments, ctypes.byref(error))
    if status != 0:
        raise from_status(status, error.text.decode(errors="replace"))


def take_text(name: str, *arguments: Any) -> str:
    """Call a function whose first argument is the text that it makes."""
    out = ctypes.c_void_p()
    call(name, ctypes.byref(out), *arguments)
    if out.value is None:
        return ""
    try:
        return ctypes.string_at(out.value).decode(errors="replace")
    finally:
        dll.km_text_free(out)


__version__ = str(dll.km_version().decode())


def _names(function: str, count_max: int = 64) -> list[str]:
    names: list[str] = []
    for i in range(count_max):
        name = getattr(dll, function)(i).decode()
        if name == "none":
            break
        names.append(name)
    return names


# In the order of km_criterion and km_algorithm.
CRITERIA = _names("km_criterion_name")
ALGORITHMS = _names("km_algorithm_name")
# 0: the largest score is best, 1: the smallest, 2: a rule (km_best).
BEST_IS = [int(dll.km_criterion_best(i)) for i in range(len(CRITERIA))]


def default_cache_folder() -> str | None:
    """Find the folder of compiled modules as the program does; None: nothing can be kept."""
    own, xdg = os.environ.get("KMGEN_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME", "")
    home = os.environ.get("HOME")
    if own:
        return own
    if xdg.startswith("/"):
        return xdg + "/kmgen"
    return home + "/.cache/kmgen" if home else None


def default_tuning_folder() -> str | None:
    """Find the folder of the user's own tuning tables as the program does."""
    xdg, home = os.environ.get("XDG_DATA_HOME", ""), os.environ.get("HOME")
    if xdg.startswith("/"):
        return xdg + "/kmgen/tuning"
    return home + "/.local/share/kmgen/tuning" if home else None
