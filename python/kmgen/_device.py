# SPDX-License-Identifier: MIT
"""Arrays that lie on a GPU: DLPack and ``__cuda_array_interface__``, without a copy."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import _library as lib

_CUDA, _CUDA_HOST, _CPU, _MANAGED = 2, 3, 1, 13  # DLDeviceType
_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}  # DLDataTypeCode
_DEFAULT_STREAM = 1  # the legacy one, in both protocols and in CUDA's driver
_AUTO = -2  # KM_DEVICE_AUTO


class DLTensor(ctypes.Structure):
    """DLPack's struct, which a capsule holds the address of."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Lying(NamedTuple):
    """An array on a device: where, what, and what keeps it alive."""

    device: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements
    type: str
    stream: int | None
    keep: Any


def _by_dlpack(array: Any) -> Lying | None:
    kind, _ = array.__dlpack_device__()
    if kind in (_CPU, _CUDA_HOST):
        return None
    if kind not in (_CUDA, _MANAGED):
        raise TypeError(
            f"the points lie on a device of kind {int(kind)} (DLPack); those of CUDA and the host are taken"
        )
    # The array's own stream is made to be waited for by the default one, which the library waits for.
    capsule = array.__dlpack__(stream=_DEFAULT_STREAM)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = DLTensor.from_address(pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    dtype = _TYPES.get(tensor.code, f"kind {tensor.code} of bits ") + str(tensor.bits)
    if tensor.lanes != 1:
        dtype += f" in vectors of {tensor.lanes}"
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule was not consumed: with it goes the hold on the array.
    return Lying(int(tensor.device_id), address, shape, strides, dtype, _DEFAULT_STREAM, (array, capsule))


def _by_interface(array: Any) -> Lying:
    told = array.__cuda_array_interface__
    if told.get("mask") is not None:
        raise ValueError(
            "the points on a GPU have a mask, and masked values are missing ones; drop such points there, or fill them "
            "in, and give the array without its mask"
        )
    dtype = np.dtype(told["typestr"])
    strides = told.get("strides")
    # None in version 3: nothing is to be waited for. Before it there was no such field.
    stream = told.get("stream", _DEFAULT_STREAM)
    strides = strides and tuple(s // dtype.itemsize for s in strides)
    name = dtype.name if dtype.isnative else f"{dtype.name} of the other byte order"
    return Lying(_AUTO, told["data"][0], tuple(told["shape"]), strides, name, stream, array)


def _is_whole(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    """Tell whether an array lies in C order without gaps."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides or ())):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def lying_on_device(array: Any) -> Lying | None:
    """Find where an array of two dimensions lies on a GPU; None: it is no such array."""
    found = None
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        found = _by_dlpack(array)
    elif hasattr(array, "__cuda_array_interface__"):
        found = _by_interface(array)
    if found is None:
        return None
    if len(found.shape) != 2:
        raise ValueError(f"Expected 2D array, got {len(found.shape)}D array instead of shape {found.shape}.")
    if found.type not in ("float32", "float64"):
        raise TypeError(f"points on a GPU must be float32 or float64; got {found.type}: convert them there")
    if not _is_whole(found.shape, found.strides):
        raise ValueError(
            "points on a GPU must lie in C order without gaps; make them so there: X.contiguous() of PyTorch, "
            "cupy.ascontiguousarray(X)"
        )
    return found


def open_on_device(out: Any, found: Lying, weights: Any) -> None:
    """Make the library's view of points on a device; waits for their stream."""
    n, d = found.shape
    kind = 0 if found.type == "float32" else 1
    lib.call("km_data_from_device", out, found.device, found.address, n, d, kind, found.stream, weights)
