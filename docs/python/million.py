# SPDX-License-Identifier: MIT
"""Many points: a million by default, not copied, with progress. Usage: million.py [FOLDER [POINTS]]."""

from __future__ import annotations

import sys
import time

import kmgen
import matplotlib.pyplot as plt
import numpy as np

folder = sys.argv[1] if len(sys.argv) > 1 else "."
n = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
draw = np.random.default_rng(0)
centers = draw.uniform(-40, 40, (6, 4)).astype(np.float32)
X = centers[draw.integers(0, 6, n)] + draw.standard_normal((n, 4), dtype=np.float32)

began = time.perf_counter()
sweep = kmgen.KMeansSweep("3..8", n_init=4, verbose=1).fit(X)
print(f"{n} points: K = {sweep.best_k_} in {time.perf_counter() - began:.2f} s by {sweep.plan_.target}")
print({phase: round(ms, 1) for phase, ms in sweep.timing_.items() if ms > 0})
sweep.plot_clusters(X)
plt.savefig(f"{folder}/million.png", dpi=100)
