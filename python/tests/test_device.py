# SPDX-License-Identifier: MIT
"""Arrays on a GPU, as far as they can be tried without one: objects that say that they are some."""

from __future__ import annotations

import ctypes

import kmgen
import numpy as np
import pytest
from kmgen import _arrays
from kmgen._device import DLTensor

has_cuda = bool(kmgen._library.dll.km_device_count())


class Capsuled:
    """Says by DLPack that an array of the host lies on a device."""

    def __init__(self, array, kind=2, strides=None):
        self.array, self.kind, self.streams, self.freed = array, kind, [], 0
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(strides or [s // array.itemsize for s in array.strides]))
        code = {"f": 2, "i": 0}[array.dtype.kind]
        self.tensor = DLTensor(
            array.ctypes.data, kind, 0, array.ndim, code, array.itemsize * 8, 1, self.shape, self.strides, 0
        )

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Interfaced:
    """Says the same by ``__cuda_array_interface__``."""

    def __init__(self, array, **told):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "version": 3,
            **told,
        }

    @classmethod
    def of(cls, tensor, stream):
        """Say of a tensor on a GPU what it says itself, but for the stream."""
        made = cls.__new__(cls)
        made.array = tensor
        made.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "stream": stream, "version": 3}
        return made


KINDS = pytest.mark.parametrize("kind", [Capsuled, Interfaced])


@KINDS
@pytest.mark.skipif(has_cuda, reason="what is said where there is no GPU")
def test_no_device(points, kind):
    with pytest.raises(kmgen.DeviceError, match="no CUDA device"):
        kmgen.KMeansSweep("2..4").fit(kind(points))


@KINDS
@pytest.mark.skipif(not has_cuda, reason="needs a GPU")
def test_memory_of_the_host(points, kind):
    with pytest.raises(ValueError, match="are no memory of a CUDA device"):
        kmgen.KMeansSweep("2..4").fit(kind(points))


@KINDS
def test_shapes_and_types(points, kind):
    taken = _arrays.take(kind(points), "fit")
    assert (taken.n, taken.d, taken.is_single, taken.names) == (300, 3, True, None)
    assert not _arrays.take(kind(points.astype(np.float64)), "fit").is_single
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        _arrays.take(kind(points[0]), "fit")
    for wrong, called in ((np.int32, "int32"), (np.float16, "float16")):
        with pytest.raises(TypeError, match=f"must be float32 or float64; got {called}: convert them there"):
            _arrays.take(kind(np.arange(6, dtype=wrong).reshape(3, 2)), "fit")


def test_dlpack_of_other_orders(points):
    for turned in (np.asfortranarray(points), points[::2], points[:, :2]):
        with pytest.raises(ValueError, match="in C order without gaps"):
            _arrays.take(Capsuled(turned), "fit")
    # A stride of one row says nothing.
    assert _arrays.take(Capsuled(points[:1], strides=[77, 1]), "fit").n == 1


def test_strides_of_the_interface(points):
    assert _arrays.take(Interfaced(points, strides=points.strides), "fit").n == 300
    with pytest.raises(ValueError, match="in C order without gaps"):
        _arrays.take(Interfaced(points, strides=(12, 8)), "fit")


def test_streams(points):
    capsuled = Capsuled(points)
    taken = _arrays.take(capsuled, "fit")
    assert capsuled.streams == [1]  # the default one, which the library then waits for
    assert taken._keep.stream == 1 and taken._keep.address == points.ctypes.data
    assert _arrays.take(Interfaced(points, stream=7), "fit")._keep.stream == 7
    assert _arrays.take(Interfaced(points, stream=None), "fit")._keep.stream is None
    assert _arrays.take(Interfaced(points, version=2), "fit")._keep.stream == 1


def test_a_mask_is_refused(points):
    mask = Interfaced(np.zeros(points.shape, bool))
    for estimator in (kmgen.KMeansSweep("2..4"), kmgen.KMeans(3)):
        with pytest.raises(ValueError, match="the points on a GPU have a mask"):
            estimator.fit(Interfaced(points, mask=mask))
    assert _arrays.take(Interfaced(points, mask=None), "fit").n == 300


@pytest.mark.skipif(not hasattr(np, "from_dlpack"), reason="NumPy has it from 1.22 on")
def test_dlpack_of_the_host(points):
    class Exchanged:
        def __dlpack__(self, **how):
            return points.__dlpack__(**how)

        def __dlpack_device__(self):
            return points.__dlpack_device__()

    fitted = kmgen.KMeansSweep("2..4").fit(Exchanged())
    assert fitted.inertia_ == kmgen.KMeansSweep("2..4").fit(points).inertia_


def test_other_devices(points):
    with pytest.raises(TypeError, match="device of kind 10"):
        _arrays.take(Capsuled(points, kind=10), "fit")


@pytest.mark.skipif(not has_cuda, reason="needs a GPU")
@pytest.mark.parametrize("way", ["torch", "told", "control"])
def test_values_that_come_late(way):
    """What the caller's stream still writes is waited for; the control, which names no stream, sees what was before."""
    torch = pytest.importorskip("torch")
    final = torch.randn(200_000, 4, device="cuda")
    model = kmgen.KMeans(3, n_init=1).fit(final)
    wanted = model.transform(final)
    late, stream = torch.zeros_like(final), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(1_500_000_000)
        late.copy_(final)
        told = None if way == "control" else stream.cuda_stream
        points = late if way == "torch" else Interfaced.of(late, told)
        got = model.transform(points)
    torch.cuda.synchronize()
    assert (got == wanted).all() == (way != "control")
