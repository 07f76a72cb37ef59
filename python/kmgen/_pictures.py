# SPDX-License-Identifier: MIT
"""Pictures by matplotlib, on axes that the caller may give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _library as lib
from ._arrays import Doubles, take

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS_MAX = 20000
_CHOSEN = "#d62728"
_TITLES = {"inertia": "inertia (falls with every K)"}


def _title(name: str) -> str:
    if name in _TITLES:
        return _TITLES[name]
    which = lib.CRITERIA.index(name)
    title = str(lib.dll.km_criterion_title(which).decode())
    return f"{title} ({('highest is best', 'lowest is best', 'by its rule')[lib.BEST_IS[which]]})"


def draw_criteria(fitted: Any, criteria: Any, axes: Any) -> list[Axes]:
    """Draw `Clusterer.plot_criteria`."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    models = fitted.models_
    criteria = [criteria] if isinstance(criteria, str) else criteria
    if criteria is None:
        preferred = ("simplified_silhouette", "calinski_harabasz", "davies_bouldin")
        criteria = ["inertia", *(c for c in preferred if any(c in m.scores for m in models.values()))]
    criteria = list(criteria)
    unknown = [name for name in criteria if name != "inertia" and name not in lib.CRITERIA]
    if unknown or not criteria:
        raise ValueError(f"criteria must be of inertia, {', '.join(lib.CRITERIA)}; got {criteria!r}")
    for name in criteria:
        if name != "inertia" and not any(name in m.scores for m in models.values()):
            raise ValueError(
                f'{name} was not computed, or says nothing here; the fit computes it by criteria=["{name}"]'
            )
    if axes is None:
        columns = min(2, len(criteria))
        rows = -(-len(criteria) // columns)
        _, grid = plt.subplots(rows, columns, figsize=(4.2 * columns, 2.9 * rows), squeeze=False, layout="constrained")
        axes = list(grid.flat)
        for spare in axes[len(criteria) :]:
            spare.remove()
    drawn: list[Axes] = list(np.ravel(np.asarray(axes, dtype=object)))[: len(criteria)]
    if len(drawn) < len(criteria):
        raise ValueError(f"{len(criteria)} criteria need as many axes; got {len(drawn)}")
    ks = list(models)
    for ax, name in zip(drawn, criteria):
        values = [m.inertia if name == "inertia" else m.scores.get(name, np.nan) for m in models.values()]
        ax.plot(ks, values, "o-", color="#1f77b4", markersize=4, linewidth=1.2)
        ax.axvline(fitted.best_k_, color=_CHOSEN, linestyle="--", linewidth=1)
        vote = fitted.votes_.get(name)
        if vote in models:
            ax.plot([vote], [values[ks.index(vote)]], "o", color="#ff7f0e", markersize=8, label=f"prefers K = {vote}")
            ax.legend(fontsize=8, frameon=False)
        ax.set_title(_title(name), fontsize=10)
        ax.set_xlabel("K")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.spines[["top", "right"]].set_visible(False)
    return drawn


def _sample(fitted: Any, X: Any) -> tuple[Doubles, Any]:
    """Read the points, or an even sample of many, as doubles, with the names of the features."""
    points = take(X, "a picture")
    if points.d != fitted.n_features_in_:
        raise ValueError(f"X has {points.d} features, and the fit had {fitted.n_features_in_}")
    if points.names is not None:
        fitted._check_names(points.names)
    step = max(1, -(-points.n // _POINTS_MAX))
    rows = [fitted._divided(block, first)[(-first) % step :: step].copy() for first, block in points.blocks(1 << 14)]
    return np.concatenate(rows), points.names


def _distances(fitted: Any, rows: Doubles, centers: Doubles) -> Doubles:
    out = np.empty((len(rows), len(centers)))
    for j, center in enumerate(centers):
        moved = (rows - center) * fitted._factor
        out[:, j] = np.sqrt(np.einsum("ij,ij->i", moved, moved))
    return out


def _colours(k: int) -> Any:
    import matplotlib.pyplot as plt

    if k <= 10:
        return [plt.get_cmap("tab10")(j) for j in range(k)]
    return [plt.get_cmap("turbo")((j + 0.5) / k) for j in range(k)]


def draw_silhouette(fitted: Any, X: Any, k: int | None, ax: Any) -> Axes:
    """Draw `Clusterer.plot_silhouette`."""
    import matplotlib.pyplot as plt

    model = fitted._model_of(k)
    if model.k < 2:
        raise ValueError("one cluster has no silhouette; give a K of at least 2")
    rows, _ = _sample(fitted, X)
    distances = _distances(fitted, rows, model.cluster_centers)
    labels = distances.argmin(1)
    two = np.partition(distances, 1, axis=1)[:, :2]
    widths = np.where(two[:, 1] > 0, (two[:, 1] - two[:, 0]) / np.maximum(two[:, 1], 1e-300), 0.0)
    axes: Axes = plt.subplots(figsize=(5.2, 4.2), layout="constrained")[1] if ax is None else ax
    at, gap = 0, max(1, len(rows) // 60)
    for j, colour in enumerate(_colours(model.k)):
        own = np.sort(widths[labels == j])[::-1]
        axes.fill_betweenx(np.arange(at, at + len(own)), 0, own, step="mid", color=colour, linewidth=0)
        axes.text(-0.02, at + len(own) / 2, str(j), ha="right", va="center", color=colour, fontsize=9)
        at += len(own) + gap
    mean = float(widths.mean())
    axes.axvline(mean, color="black", linestyle="--", linewidth=1, label=f"mean {mean:.2f}")
    axes.set(xlim=(-0.06, 1.0), yticks=[], xlabel="simplified silhouette: 0 half-way between centroids, 1 on one")
    axes.set_title(f"K = {model.k}", fontsize=11)
    axes.invert_yaxis()
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return axes


def _plane(fitted: Any, rows: Doubles, names: Any, features: Any) -> tuple[Any, Any, list[str]]:
    """Choose the two axes of a picture: functions of points, and what they are called."""
    d = rows.shape[1]
    labels = list(names) if names else [f"feature {f}" for f in range(d)]
    if features is None and d <= 2:
        features = (0, d - 1)
    if features is not None:
        pair = features if isinstance(features, (tuple, list, np.ndarray)) else []
        chosen = [labels.index(f) if isinstance(f, str) and f in labels else f for f in pair]
        fit = (isinstance(f, (int, np.integer)) and not isinstance(f, bool) and 0 <= f < d for f in chosen)
        if len(chosen) != 2 or not all(fit):
            raise ValueError(f"features must be two of {', '.join(labels)}, by name or number; got {features!r}")
        return (lambda x: x[:, chosen]), [labels[f] for f in chosen], []
    mean = rows.mean(0)
    scaled = (rows - mean) * fitted._factor
    if len(rows) < 2:
        scaled = np.zeros((2, d))
    _, spread, axes = np.linalg.svd(scaled - scaled.mean(0), full_matrices=False)
    share = spread**2 / max(float((spread**2).sum()), 1e-300)
    said = [f"principal component {i + 1} ({share[i]:.0%} of the variance)" for i in range(2)]
    return (lambda x: ((x - mean) * fitted._factor) @ axes[:2].T), said, []


def draw_clusters(fitted: Any, X: Any, k: int | None, features: Any, ax: Any) -> Axes:
    """Draw `Clusterer.plot_clusters`."""
    import matplotlib.pyplot as plt

    model = fitted._model_of(k)
    rows, names = _sample(fitted, X)
    labels = _distances(fitted, rows, model.cluster_centers).argmin(1)
    project, said, _ = _plane(fitted, rows, names, features)
    axes: Axes = plt.subplots(figsize=(5.2, 4.2), layout="constrained")[1] if ax is None else ax
    at, centers, colours = project(rows), project(model.cluster_centers), _colours(model.k)
    size = float(np.clip(6000 / len(rows), 0.5, 18))
    axes.scatter(at[:, 0], at[:, 1], s=size, c=[colours[j] for j in labels], linewidths=0, alpha=0.7, rasterized=True)
    axes.scatter(
        centers[:, 0], centers[:, 1], s=90, c=colours, marker="X", edgecolors="black", linewidths=1.2, zorder=3
    )
    axes.set(xlabel=said[0], ylabel=said[1])
    axes.set_title(f"K = {model.k}", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
