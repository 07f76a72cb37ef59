# SPDX-License-Identifier: MIT
"""Customers: a table of numbers, categories and holes, made into features by pandas. Usage: customers.py [FOLDER]."""

from __future__ import annotations

import sys

import kmgen
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

folder = sys.argv[1] if len(sys.argv) > 1 else "."
draw = np.random.default_rng(4)
kind = draw.integers(0, 3, 600)
table = pd.DataFrame(
    {
        "customer": np.arange(600) + 1000,
        "age": draw.normal([28, 45, 67], 4, (600, 3))[np.arange(600), kind].round(),
        "spent": draw.lognormal([3.0, 5.5, 4.2], 0.3, (600, 3))[np.arange(600), kind].round(2),
        "visits": draw.poisson([3, 25, 9], (600, 3))[np.arange(600), kind],
        "plan": np.array(["basic", "family", "senior"])[kind],
    }
)
table.loc[::50, "spent"] = np.nan

features = table.drop(columns="customer").assign(spent=table.spent.fillna(table.spent.median()))
features = pd.get_dummies(features, columns=["plan"], dtype=float)
sweep = kmgen.KMeansSweep("2..8", scale="standard").fit(features)
table["segment"] = sweep.labels_
print(sweep.reason_)
print(table.groupby("segment")[["age", "spent", "visits"]].mean().round(1))
sweep.plot_clusters(features, features=("age", "visits"))
plt.savefig(f"{folder}/customers.png", dpi=100)
sweep.report(f"{folder}/customers.html", features, title="customers")
