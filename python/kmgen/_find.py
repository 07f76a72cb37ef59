# SPDX-License-Identifier: MIT
"""One call, one answer: which K fits the points, and why."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import numpy as np

from . import _library as lib
from ._errors import warn
from ._estimators import KMeansSweep
from ._results import Labels, Model
from ._tables import choose_columns

__all__ = ["Answer", "find_k"]


class Answer(NamedTuple):
    """What `find_k` found. ``print`` it for the table; a notebook shows it as one.

    Attributes
    ----------
    k : int
        The K that fits best.
    clustered : bool
        False where the points look like no clusters.
    reason : str
        Why this K, in one sentence.
    votes : dict of str to int
        The K that each criterion prefers.
    labels : ndarray of int32 of shape (n,)
        Labels of the points.
    sweep : KMeansSweep
        The fitted estimator, with the models of all K.
    table : str
        A row a K.
    """

    k: int
    clustered: bool
    reason: str
    votes: dict[str, int]
    labels: Labels
    sweep: KMeansSweep
    table: str

    def __str__(self) -> str:
        return self.table

    def __repr__(self) -> str:
        return f"<K = {self.k}: {self.reason}>"

    def _repr_html_(self) -> str:
        """Show the answer in a notebook: the sentence, and a row a K with the share of its points in each cluster."""
        models, ks = self.sweep.models_, list(self.sweep.models_)
        shown = [c for c in _SHOWN if any(c in model.scores for model in models.values())]
        columns = [_column([model.inertia for model in models.values()], 2)]
        columns += [_column([m.scores.get(c, np.nan) for m in models.values()], _best_is(c)) for c in shown]
        heads = ["inertia", *(f"{_title(c)} {_ARROWS[_best_is(c)]}".strip() for c in shown)]
        rows = []
        for i, (k, model) in enumerate(models.items()):
            votes = ", ".join(_title(name) for name, vote in self.votes.items() if vote == k)
            style = f' style="{_CHOSEN}"' if k == self.k else ""
            cells = "".join(f"<td>{column[i]}</td>" for column in columns)
            rows.append(
                f"<tr{style}><td><b>{k}</b></td>{_shares(model)}{cells}"
                f'<td style="text-align:left">{html.escape(votes)}</td></tr>'
            )
        first, last = ks[0], ks[-1]
        listed = f"K = {first}" if first == last else f"{len(ks)} K from {first} to {last}"
        said = f"K = {self.k}" if self.clustered else "No clusters"
        if not self.clustered:
            listed += f"; K = {self.k} is the best of these"
        d = self.sweep.n_features_in_
        sizes = f"{len(self.labels):,} points, {d:,} feature{'s' if d > 1 else ''}"
        warned = "".join(f'<p style="{_NOTE}">{html.escape(text)}</p>' for text in self.sweep.warnings_)
        head = "".join(f"<th>{html.escape(word)}</th>" for word in heads)
        return (
            f'<div><p style="margin:0.3em 0"><b style="font-size:1.4em">{said}</b> &ensp;{sizes}; {listed}<br>'
            f'{html.escape(self.reason)}</p><table style="margin:0.6em 0"><thead><tr><th>K</th>'
            f'<th style="text-align:left">share of each cluster</th>{head}'
            f'<th style="text-align:left">preferred by</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
            f"{warned}</div>"
        )


# Criteria that the notebook's table has a column for, and whether more or less of one is better.
_SHOWN = ("simplified_silhouette", "calinski_harabasz", "davies_bouldin", "valley")
_ARROWS = {0: "↑", 1: "↓", 2: ""}
_COLOURS = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)
_CHOSEN = "background:rgba(31,119,180,0.2)"
_NOTE = "margin:0.3em 0;padding:0.3em 0.8em;border-left:4px solid #e0a000;background:rgba(224,160,0,0.12)"


def _title(criterion: str) -> str:
    return str(lib.dll.km_criterion_title(lib.CRITERIA.index(criterion)).decode())


def _best_is(criterion: str) -> int:
    return lib.BEST_IS[lib.CRITERIA.index(criterion)]


def _column(values: list[float], best_is: int) -> list[str]:
    """Write a column with as many decimals as its largest value needs for four digits, the best in bold."""
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return ["" for _ in values]
    decimals = min(4, max(0, 3 - int(np.floor(np.log10(max(map(abs, known)) or 1)))))
    best = (max, min)[best_is](known) if best_is < 2 else None
    texts = [f"{value:,.{decimals}f}".replace("-", "&minus;") if np.isfinite(value) else "" for value in values]
    return [f"<b>{text}</b>" if value == best else text for value, text in zip(values, texts)]


def _shares(model: Model) -> str:
    """Draw the clusters' shares of the points as one bar, the largest first."""
    sizes = np.sort(model.sizes)[::-1]
    parts = "".join(
        f'<span style="display:inline-block;height:0.9em;width:{100 * size / sizes.sum():.2f}%;'
        f'background:{_COLOURS[i % len(_COLOURS)]}"></span>'
        for i, size in enumerate(sizes[:_PARTS_MAX])
    )
    named = ", ".join(f"{size:,}" for size in sizes[:_PARTS_MAX]) + (", ..." if len(sizes) > _PARTS_MAX else "")
    return (
        f'<td style="text-align:left"><span title="{named} points" style="display:inline-block;width:9em;height:0.9em;'
        f'line-height:0;font-size:1em;white-space:nowrap;background:rgba(127,127,127,0.25)">{parts}</span></td>'
    )


_PARTS_MAX = 50


def find_k(X: Any, clusters: Any = "2..12", *, sample_weight: Any = None, **params: Any) -> Answer:
    """Find which K fits points best.

    Parameters
    ----------
    X : array, table or sparse matrix of shape (n, d)
        The points. Of a table with names the features are the columns of numbers that are no ids, as where the program
        reads one; a warning says what is left out, and ``answer.sweep.feature_names_in_`` has the features.
    clusters : str, range, list of int or int
        The list of K to look at.
    sample_weight : array of shape (n,), optional
        How much each point counts.
    **params : dict
        Further parameters of `KMeansSweep`, e.g. ``scale="standard"``.

    Returns
    -------
    Answer
        K, the reason, labels, and all else that the fit knows.

    Raises
    ------
    ValueError, TypeError, MemoryError, DeviceError, CompileError, KeyboardInterrupt
        As of `KMeansSweep.fit`; ValueError where a table has no column of numbers that is no id.

    Examples
    --------
    >>> import numpy as np, kmgen
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [20.0], [20.1], [20.2]])
    >>> kmgen.find_k(X, clusters="2..4").k
    3
    """
    X, left_out = choose_columns(X)
    if left_out:
        warn(left_out)
    sweep = KMeansSweep(clusters, **params).fit(X, sample_weight=sample_weight)
    if left_out:
        sweep.warnings_.insert(0, left_out)
    result = sweep._result
    assert result is not None
    return Answer(
        sweep.best_k_, sweep.clustered_, sweep.reason_, sweep.votes_, sweep.labels_, sweep, result.table()
    )  # fmt: skip
