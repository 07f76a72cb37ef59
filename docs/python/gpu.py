# SPDX-License-Identifier: MIT
"""Points that PyTorch made on a GPU: fitted where they lie. Without a GPU, NumPy's. Usage: gpu.py [FOLDER [POINTS]]."""

from __future__ import annotations

import sys

import kmgen
import matplotlib.pyplot as plt
import numpy as np

folder = sys.argv[1] if len(sys.argv) > 1 else "."
n = int(sys.argv[2]) if len(sys.argv) > 2 else 4_000_000
angle, share = np.arange(5) * 2.513, np.array([0.1, 0.15, 0.2, 0.25, 0.3])
centers = np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32) * 9
try:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    which = torch.multinomial(torch.tensor(share, device=device), n, replacement=True)
    X = torch.tensor(centers, device=device)[which] + torch.randn(n, 2, device=device)
except ImportError:
    draw = np.random.default_rng(0)
    X = centers[draw.choice(5, n, p=share)] + draw.standard_normal((n, 2), dtype=np.float32)

sweep = kmgen.KMeansSweep("2..9", n_init=4).fit(X)
print(f"{n} points of {type(X).__module__}: K = {sweep.best_k_} on {sweep.plan_.device}; milliseconds:")
print({phase: round(ms, 1) for phase, ms in sweep.timing_.items() if ms > 0})
few = X[:: max(1, n // 10_000)]
sweep.plot_clusters(few.cpu().numpy() if hasattr(few, "cpu") else few)
plt.savefig(f"{folder}/gpu.png", dpi=100)
