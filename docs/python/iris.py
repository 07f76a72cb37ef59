# SPDX-License-Identifier: MIT
"""Iris: one call for the answer, and pictures of it. Usage: iris.py [FOLDER]."""

from __future__ import annotations

import sys

import kmgen
import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X = load_iris(as_frame=True).data
answer = kmgen.find_k(X, "2..10")
print(answer)
answer.sweep.plot_criteria()
plt.savefig(f"{folder}/iris_criteria.png", dpi=100)
answer.sweep.plot_clusters(X, k=3, features=("petal length (cm)", "petal width (cm)"))
plt.savefig(f"{folder}/iris_clusters.png", dpi=100)
answer.sweep.plot_silhouette(X, k=3)
plt.savefig(f"{folder}/iris_silhouette.png", dpi=100)
