#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a fit from Python costs beyond the same km_fit from C: medians of pairs of fits in one process, by turns first.

The fit from C is the library's own function, called with spec, parameters and km_data ready made, and its result freed.
With --gpu the points are a torch array on the GPU; else iris, 100,000 x 4 and 1,000,000 x 8 on the host. Wall time says
what a fit costs on a machine that has nothing else to do; beside other programs only the processor's own time does, and
only with --threads 1, as threads that wait for each other take time, too.

Usage: PYTHONPATH=FOLDER_OF_KMGEN bench/python_overhead.py [--runs N] [--threads N] [--gpu]
"""

import argparse
import contextlib
import ctypes
import gc
import statistics
import time
import warnings

import kmgen
import numpy as np
from kmgen import _arrays, _fit
from kmgen import _library as lib


def _folders():
    return lib.default_cache_folder(), lib.default_tuning_folder()


class Recorded:
    """The arguments of a fit, as the package made them for the library."""

    def __init__(self, X, options):
        self.points = _arrays.take(X, "bench")
        self.spec, self.params = lib.Spec(), None
        call = lib.call

        def record(name, *arguments):
            if name == "km_fit":
                _, spec, _, params = arguments
                ctypes.memmove(ctypes.byref(self.spec), spec, ctypes.sizeof(lib.Spec))
                self.params = lib.FitParams.from_buffer_copy(params._obj)
            return call(name, *arguments)

        lib.call = record
        try:
            self.kept = kmgen.KMeansSweep(**options).fit(X)
        finally:
            lib.call = call
        self.folders = [ctypes.c_char_p(f.encode()) for f in _folders()]
        lib.dll.km_spec_init(ctypes.byref(self.spec))
        clusters = _fit.clusters_text(options["clusters"]).encode()
        call("km_spec_set_clusters", ctypes.byref(self.spec), clusters)
        self.spec.n_init = options["n_init"]
        self.params.cache_dir, self.params.tuning_dir = (ctypes.cast(f, ctypes.c_void_p) for f in self.folders)
        self.params.progress = None

    def run(self):
        handle, error = ctypes.c_void_p(), lib.Error()
        with self.points.open() as data:
            status = lib.dll.km_fit(
                ctypes.byref(handle), ctypes.byref(self.spec), data.handle, ctypes.byref(self.params),
                ctypes.byref(error),
            )  # fmt: skip
        assert status == 0, error.text
        lib.dll.km_result_destroy(ctypes.byref(handle))


def timed(function):
    """Milliseconds of wall time and of the processor's own."""
    began, own = time.perf_counter(), time.process_time()
    kept = function()
    took = (time.perf_counter() - began) * 1e3, (time.process_time() - own) * 1e3
    del kept
    return took


def compare(name, X, options, runs):
    c = Recorded(X, options)
    python, own = [], []
    c.run()
    turns = [(python, lambda: kmgen.KMeansSweep(**options).fit(X)), (own, c.run)]
    for _ in range(runs):
        for took, fit in turns:
            took.append(timed(fit))
        turns.reverse()  # who comes second may take a per cent longer
    for clock, what in enumerate(("wall", "processor")):
        of_c = statistics.median(o[clock] for o in own)
        more = statistics.median(p[clock] - o[clock] for p, o in zip(python, own))
        print(f"{name}, {what}: C {of_c:.3f} ms, Python {more:+.3f} ms, {0.3 + 0.01 * of_c:.3f} allowed: ", end="")
        print(f"medians of {runs}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="pairs of fits of the largest job; default: 15")
    parser.add_argument("--threads", type=int, help="of a fit; default: all")
    parser.add_argument("--gpu", action="store_true", help="a torch array on the GPU")
    given = parser.parse_args()
    gc.disable()
    warnings.simplefilter("ignore", kmgen.KmgenWarning)
    draw = np.random.default_rng(0)
    options = {"clusters": "2..8", "n_init": 4, "threads": given.threads}
    if given.gpu:
        import torch

        centers = torch.randn(6, 4, device="cuda") * 20
        X = centers[torch.randint(0, 6, (33_554_432,), device="cuda")] + torch.randn(33_554_432, 4, device="cuda")
        compare("33,554,432 x 4 on the GPU", X, options, given.runs)
        return
    with contextlib.suppress(ImportError):
        from sklearn.datasets import load_iris

        compare("iris", load_iris().data, options, 20 * given.runs)
    for n, d in ((100_000, 4), (1_000_000, 8)):
        centers = draw.uniform(-40, 40, (6, d)).astype(np.float32)
        X = centers[draw.integers(0, 6, n)] + draw.standard_normal((n, d), dtype=np.float32)
        compare(f"{n:,} x {d}", X, options, given.runs)


if __name__ == "__main__":
    main()
