# SPDX-License-Identifier: MIT
"""The colours of an image: each pixel a point, K colours that stand for all. Usage: colours.py [FOLDER]."""

from __future__ import annotations

import sys

import kmgen
import matplotlib.pyplot as plt
import numpy as np

folder = sys.argv[1] if len(sys.argv) > 1 else "."
# A sunset over the sea: a smooth sky, a sun, waves.
y, x = np.mgrid[0:120, 0:180] / 120.0
sky = np.stack([0.95 - 0.3 * y, 0.45 + 0.25 * y, 0.35 + 0.4 * (1 - y)], -1)
sea = np.stack([0.1 + 0.2 * np.sin(40 * y + 6 * x) ** 2, 0.25 + 0.1 * y, 0.45 - 0.1 * y], -1)
image = np.where((y > 0.62)[..., None], sea, sky)
image[np.hypot(x - 0.75, y - 0.5) < 0.12] = (1.0, 0.9, 0.55)
pixels = image.reshape(-1, 3).astype(np.float32)

sweep = kmgen.KMeansSweep([4, 8, 16], labels="all", n_init=2).fit(pixels)
figure, axes = plt.subplots(1, 4, figsize=(11, 2.2), layout="constrained")
axes[0].imshow(image)
axes[0].set_title("as it is")
for ax, (k, model) in zip(axes[1:], sweep.models_.items()):
    ax.imshow(model.cluster_centers[model.labels].reshape(image.shape).clip(0, 1))
    ax.set_title(f"{k} colours")
for ax in axes:
    ax.axis("off")
figure.savefig(f"{folder}/colours.png", dpi=100)
