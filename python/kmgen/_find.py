# SPDX-License-Identifier: MIT
"""One call, one answer: which K fits the points, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._clusterers import KMeansSweep
from ._results import Labels

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
        import html

        models = self.sweep.models_
        shown = [
            c for c in ("simplified_silhouette", "calinski_harabasz", "davies_bouldin", "valley") if _any(models, c)
        ]
        head = "".join(f"<th>{html.escape(c.replace('_', ' '))}</th>" for c in shown)
        rows = []
        for k, model in models.items():
            cells = "".join(f"<td>{model.scores.get(c, np.nan):.4g}</td>" for c in shown)
            votes = ", ".join(name.replace("_", " ") for name, vote in self.votes.items() if vote == k)
            style = ' style="font-weight:bold;background:rgba(31,119,180,0.15)"' if k == self.k else ""
            rows.append(
                f"<tr{style}><td>{k}</td><td>{model.inertia:.6g}</td>{cells}"
                f'<td style="text-align:left">{html.escape(votes)}</td></tr>'
            )
        said = f"K = {self.k}" if self.clustered else f"no clusters (K = {self.k} is the best of the list)"
        warned = "".join(f"<li>{html.escape(text)}</li>" for text in self.sweep.warnings_)
        return (
            f"<div><p><b>{said}</b>: {html.escape(self.reason)}</p>"
            f"<table><thead><tr><th>K</th><th>inertia</th>{head}"
            f'<th style="text-align:left">preferred by</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
            + (f"<ul>{warned}</ul>" if warned else "")
            + "</div>"
        )


def _any(models: Any, criterion: str) -> bool:
    return any(criterion in model.scores for model in models.values())


def find_k(X: Any, clusters: Any = "2..12", *, sample_weight: Any = None, **params: Any) -> Answer:
    """Find which K fits points best.

    Parameters
    ----------
    X : array, table or sparse matrix of shape (n, d)
        The points.
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

    Examples
    --------
    >>> import numpy as np, kmgen
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [20.0], [20.1], [20.2]])
    >>> kmgen.find_k(X, clusters="2..4").k
    3
    """
    sweep = KMeansSweep(clusters, **params).fit(X, sample_weight=sample_weight)
    result = sweep._result
    assert result is not None
    return Answer(
        sweep.best_k_, sweep.clustered_, sweep.reason_, sweep.votes_, sweep.labels_, sweep, result.table()
    )  # fmt: skip
