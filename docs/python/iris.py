# SPDX-License-Identifier: MIT
"""Iris: one call for the answer, and pictures of it. Usage: iris.py [FOLDER]."""

from __future__ import annotations

import sys

import kmgen
from sklearn.datasets import load_iris

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X = load_iris(as_frame=True).data
answer = kmgen.find_k(X, "2..10")
print(answer)
for ax in answer.sweep.plot_criteria():
    ax.figure.savefig(f"{folder}/iris_criteria.png", dpi=100)
ax = answer.sweep.plot_clusters(X, k=3, features=("petal length (cm)", "petal width (cm)"))
ax.figure.savefig(f"{folder}/iris_clusters.png", dpi=100)
answer.sweep.plot_silhouette(X, k=3).figure.savefig(f"{folder}/iris_silhouette.png", dpi=100)
