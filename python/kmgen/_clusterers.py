# SPDX-License-Identifier: MIT
"""What the estimators have in common."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._arrays import Doubles, Points, take, take_weights
from ._errors import not_fitted, warn
from ._fit import run
from ._params import Parameters
from ._results import Labels, Model, Plan, Predictor, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Self = TypeVar("Self", bound="Clusterer")
_ROWS = 1 << 14  # points that are looked at together where Python computes


class Clusterer(Parameters):
    """What both estimators are after a fit: the model of the chosen K, and those of the others."""

    best_k_: int
    labels_: Labels
    cluster_centers_: Doubles
    inertia_: float
    n_iter_: int
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
    warnings_: list[str]
    reason_: str
    clustered_: bool
    interrupted_: bool

    _result: Result | None
    _points: Any
    _weights: Doubles | None
    _factor: Doubles
    _is_single: bool
    _is_unit: bool  # points are divided by their length
    _looked: dict[str, Any]  # what was read of the result
    _predictor: Predictor

    def _options(self) -> dict[str, Any]:
        raise NotImplementedError

    def _clusters(self) -> Any:
        raise NotImplementedError

    def fit(self: Self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster points for every K, with every restart, and choose the best K.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points. NumPy arrays of float32 or float64 are not copied.
        y : ignored
            There for pipelines.
        sample_weight : array of shape (n,), optional
            How much each point counts; default: all 1.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            A parameter is wrong; points are missing, infinite or beyond what the type holds (row and column are named);
            no K of the list is left for so few points.
        TypeError
            The points are no numbers, or lie on a device that is not known.
        MemoryError
            Neither memory nor ``scratch_dir`` has room for what the fit takes.
        DeviceError, CompileError
            The device that was asked for is not there or failed; a kernel could not be compiled for it.
        KeyboardInterrupt
            By Ctrl-C, within 0.2 s.

        Warns
        -----
        KmgenWarning
            Each sentence of ``warnings_``.
        """
        points = take(X, type(self).__name__)
        weights = take_weights(sample_weight, points.n)
        try:
            result = run(points, weights, self._options(), self._clusters())
        except ValueError as error:
            if points.n != 1:
                raise
            raise ValueError(f"{error} (n_samples = 1)") from None
        self._take(result, points)
        self._weights = weights
        self._points = _weak(X)
        return self

    def _take(self, result: Result, points: Points) -> None:
        best = Model(result, result.best)
        self._result, self._looked, self._predictor = result, {}, best.predictor
        self._factor, self._is_single, self._is_unit = result.factor, points.is_single, result.is_unit
        self.best_k_, self.labels_ = best.k, best.labels  # type: ignore[assignment]
        self.cluster_centers_, self.inertia_, self.n_iter_ = best.cluster_centers, best.inertia, best.n_iter
        self.n_features_in_ = points.d
        self.warnings_, self.reason_, self.clustered_ = result.warnings, result.reason, result.clustered
        self.interrupted_ = result.interrupted
        if points.names is not None:
            self.feature_names_in_ = np.array(points.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # What is read of the result when somebody looks at it --------------------------------------------------

    def _check_fitted(self) -> None:
        if "best_k_" not in self.__dict__:
            raise not_fitted(type(self).__name__)

    def _look(self, name: str) -> Any:
        if "best_k_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name}_ before fit")
        if name not in self._looked:
            assert self._result is not None  # a pickle holds all of it
            self._looked[name] = getattr(self._result, name)
        return self._looked[name]

    @property
    def models_(self) -> dict[int, Model]:
        """The model of every K."""
        models: dict[int, Model] = self._look("models")
        return models

    def _model_of(self, k: int | None) -> Model:
        k = self.best_k_ if k is None else k
        if k not in self.models_:
            raise ValueError(f"K = {k} is not in the list of the fit: {list(self.models_)}")
        return self.models_[k]

    @property
    def plan_(self) -> Plan:
        """How the fit was computed; ``print`` it for all numbers and their reasons."""
        plan: Plan = self._look("plan")
        return plan

    @property
    def timing_(self) -> dict[str, float]:
        """Milliseconds of each phase of the fit."""
        timing: dict[str, float] = self._look("timing")
        return timing

    @property
    def votes_(self) -> dict[str, int]:
        """The K that each criterion prefers."""
        votes: dict[str, int] = self._look("votes")
        return votes

    @property
    def criteria_(self) -> Any:
        """Criteria of every K: a pandas DataFrame with an index of K where pandas is there, else a dict of arrays."""
        models = self.models_
        columns: dict[str, npt.NDArray[Any]] = {"inertia": np.array([m.inertia for m in models.values()])}
        for name in lib.CRITERIA:
            values = [m.scores.get(name, np.nan) for m in models.values()]
            if not all(np.isnan(values)):
                columns[name] = np.array(values)
        try:
            import pandas
        except ImportError:
            return {"k": np.array(list(models)), **columns}
        return pandas.DataFrame(columns, index=pandas.Index(list(models), name="k"))

    # New points --------------------------------------------------------------------------------------------

    def _new_points(self, X: Any) -> Points:
        self._check_fitted()
        points = take(X, type(self).__name__)
        self._check_names(points.names)
        if points.d != self.n_features_in_:
            raise ValueError(
                f"X has {points.d} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input."
            )
        return points

    def _check_names(self, names: list[str] | None) -> None:
        own, who = getattr(self, "feature_names_in_", None), type(self).__name__
        if own is None and names is None:
            return
        if own is None:
            warn(f"X has feature names, but {who} was fitted without feature names", UserWarning)
        elif names is None:
            warn(f"X does not have valid feature names, but {who} was fitted with feature names", UserWarning)
        elif names != list(own):
            raise ValueError(_say_names(names, list(own)))

    def predict(self, X: Any) -> Labels:
        """Label points by the nearest centroid of the chosen K.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points.

        Returns
        -------
        ndarray of int32 of shape (n,)
            Labels from 0 to ``best_k_ - 1``; of the points of the fit those in ``labels_``.

        Raises
        ------
        NotFittedError
            There was no fit.
        ValueError
            The points have other features than those of the fit, or values that are missing or infinite.
        """
        return self._label(self._new_points(X))

    def _label(self, points: Points) -> Labels:
        options = self._options()
        device = options["device"] if points.device is not None or str(options["device"]).startswith("cuda") else "cpu"
        return self._predictor.predict(points, threads=options["threads"], device=device)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Labels:
        """Fit, and return ``labels_``.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points.
        y : ignored
            There for pipelines.
        sample_weight : array of shape (n,), optional
            How much each point counts; default: all 1.

        Returns
        -------
        ndarray of int32 of shape (n,)
            Labels from 0 to ``best_k_ - 1``.
        """
        return self.fit(X, sample_weight=sample_weight).labels_

    def transform(self, X: Any) -> Doubles:
        """Measure the distance of each point to each centroid of the chosen K.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points.

        Returns
        -------
        ndarray of float64 of shape (n, best_k_)
            Euclidean distances in the space that was clustered: the points' units, or those of ``scale``; with the
            metric cosine ``sqrt(2 (1 - cos))``.

        Raises
        ------
        NotFittedError
            There was no fit.
        ValueError
            The points have other features than those of the fit, or values that are missing or infinite, or with the
            metric cosine all zero.
        """
        points = self._new_points(X)
        out = np.empty((points.n, len(self.cluster_centers_)))
        for first, block in points.blocks(_ROWS):
            rows = self._divided(block, first)
            for j, center in enumerate(self.cluster_centers_):
                moved = (rows - center) * self._factor
                np.sqrt(np.einsum("ij,ij->i", moved, moved), out=out[first : first + len(rows), j])
        return out

    def _divided(self, rows: Doubles, first: int) -> Doubles:
        """Divide points, of which the first has this number, by their length where the metric is the cosine."""
        if not self._is_unit:
            return rows
        largest = np.abs(rows).max(1, keepdims=True, initial=0)
        if not largest.all():
            row = first + int(np.flatnonzero(largest == 0)[0]) + 1
            raise ValueError(
                f"X: row {row}: all values are 0, so there is no direction, and no cosine; leave such rows out"
            )
        scaled = rows / largest
        divided: Doubles = scaled / np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
        return divided

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Doubles:
        """Fit, and `transform` the same points.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points.
        y : ignored
            There for pipelines.
        sample_weight : array of shape (n,), optional
            How much each point counts; default: all 1.

        Returns
        -------
        ndarray of float64 of shape (n, best_k_)
            Distances to the centroids, as of `transform`.
        """
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Tell how well centroids of the chosen K fit points, the higher the better.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points.
        y : ignored
            There for pipelines.
        sample_weight : array of shape (n,), optional
            How much each point counts.

        Returns
        -------
        float
            The sum of weighted squared distances to the nearest centroid, with a minus, in the units of ``inertia_``.

        Raises
        ------
        NotFittedError
            There was no fit.
        ValueError
            The points have other features than those of the fit, or values that are missing or infinite; there are not
            as many weights as points.
        """
        points = self._new_points(X)
        weights = take_weights(sample_weight, points.n)
        labels, total = self._label(points), 0.0
        for first, block in points.blocks(_ROWS):
            rows = self._divided(block, first)
            part = slice(first, first + len(rows))
            moved = (rows - self.cluster_centers_[labels[part]]) * self._factor
            squares = np.einsum("ij,ij->i", moved, moved)
            total += float(squares.sum() if weights is None else squares @ weights[part])
        return -total

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Name the columns of `transform`: the class in small letters and the number of the cluster.

        Parameters
        ----------
        input_features : ignored
            There for pipelines.

        Returns
        -------
        ndarray of str of shape (best_k_,)
            E.g. ``["kmeans0", "kmeans1"]``.
        """
        self._check_fitted()
        name = type(self).__name__.lower()
        return np.array([f"{name}{j}" for j in range(len(self.cluster_centers_))], dtype=object)

    # What others read --------------------------------------------------------------------------------------

    def to_sklearn(self, k: int | None = None) -> Any:
        """Make a fitted scikit-learn ``KMeans`` of one K.

        Parameters
        ----------
        k : int, optional
            One of the list; default: the chosen K.

        Returns
        -------
        sklearn.cluster.KMeans
            With centroids, labels (where they are known) and inertia of this K. Points must be as they were here: with
            ``scale``, its space is that of the points, not the scaled one.

        Raises
        ------
        ImportError
            scikit-learn is not installed.
        NotFittedError
            There was no fit.
        ValueError
            The fit had a scale or the metric cosine, which that class does not know, or no such K.
        """
        from sklearn.cluster import KMeans as Theirs

        self._check_fitted()
        model = self._model_of(k)
        if self._is_unit:
            raise ValueError("scikit-learn's KMeans has no cosine; divide the points by their length (normalize) first")
        if not bool((self._factor == 1).all()):
            raise ValueError("scikit-learn's KMeans has no scale; scale the points before the fit, by a Pipeline")
        k = model.k
        other = Theirs(n_clusters=k, init=model.cluster_centers, n_init=1, max_iter=1)
        # Of the type of the points, as it wants them.
        other.cluster_centers_ = model.cluster_centers.astype(np.float32 if self._is_single else np.float64)
        other.inertia_, other.n_iter_, other._n_threads = model.inertia, model.n_iter, 1
        other._n_features_out, other.n_features_in_ = k, self.n_features_in_
        if model.labels is not None:
            other.labels_ = model.labels
        if hasattr(self, "feature_names_in_"):
            other.feature_names_in_ = self.feature_names_in_
        return other

    def save(self, path: str, k: int | None = None) -> None:
        """Write the model of one K to a file that `kmgen.load` and ``kmgen predict`` read.

        Parameters
        ----------
        path : str
            The file; one that is there is replaced as a whole.
        k : int, optional
            One of the list; default: the chosen K.

        Raises
        ------
        NotFittedError
            There was no fit.
        ValueError
            The fit had no such K.
        OSError
            The file cannot be written.
        """
        self._check_fitted()
        self._model_of(k).save(path)

    def report(self, path: str, X: Any = None, title: str = "points") -> None:
        """Write the whole result as one HTML page that needs no network.

        Parameters
        ----------
        path : str
            The file.
        X : array, table or sparse matrix of shape (n, d), optional
            The points that were fitted; needed where nothing else keeps them any more.
        title : str
            What the page calls them.

        Raises
        ------
        NotFittedError
            There was no fit.
        ValueError
            The fit was unpickled; its points are gone and ``X`` is not given, or ``X`` has another shape.
        OSError
            The file cannot be written.
        """
        self._check_fitted()
        if self._result is None:
            raise ValueError("a fit that was unpickled has no report; fit again, or write the report before pickling")
        if X is None:
            X = self._points() if self._points is not None else None
        if X is None:
            raise ValueError("the points of the fit are gone; give them: report(path, X)")
        self._result.report(path, take(X, "report"), self._weights, title)

    def plot_criteria(self, criteria: Any = None, *, axes: Any = None) -> Any:
        """Draw the inertia and criteria over K, with the chosen K marked.

        Parameters
        ----------
        criteria : list of str, optional
            Names of criteria, "inertia" among them; default: inertia, and three that were computed.
        axes : list of matplotlib Axes, optional
            One a criterion; default: new ones.

        Returns
        -------
        list of matplotlib Axes
            One a criterion, drawn on.

        Raises
        ------
        ImportError
            matplotlib is not installed.
        NotFittedError
            There was no fit.
        ValueError
            A criterion is not known or was not computed, or there are fewer axes than criteria.
        """
        from ._pictures import draw_criteria

        self._check_fitted()
        return draw_criteria(self, criteria, axes)

    def plot_silhouette(self, X: Any, k: int | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw the simplified silhouette of each point, by clusters.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points; of more than 20,000 an even sample is drawn.
        k : int, optional
            One of the list; default: the chosen K.
        ax : matplotlib Axes, optional
            Default: new ones.

        Returns
        -------
        matplotlib Axes
            Drawn on.

        Raises
        ------
        ImportError
            matplotlib is not installed.
        NotFittedError
            There was no fit.
        ValueError
            The fit had no such K, or the K is 1; ``X`` has other features than the fit's points.
        """
        from ._pictures import draw_silhouette

        self._check_fitted()
        return draw_silhouette(self, X, k, ax)

    def plot_clusters(self, X: Any, k: int | None = None, *, features: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the points in two dimensions, coloured by cluster, with the centroids.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points; of more than 20,000 an even sample is drawn.
        k : int, optional
            One of the list; default: the chosen K.
        features : pair of int or str, optional
            The two features; default: the two principal components (of two features, these).
        ax : matplotlib Axes, optional
            Default: new ones.

        Returns
        -------
        matplotlib Axes
            Drawn on.

        Raises
        ------
        ImportError
            matplotlib is not installed.
        NotFittedError
            There was no fit.
        ValueError
            The fit had no such K; ``X`` has other features than the fit's points, or not those named.
        """
        from ._pictures import draw_clusters

        self._check_fitted()
        return draw_clusters(self, X, k, features, ax)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "best_k_" in state:
            for name in ("models", "plan", "timing", "votes"):
                self._look(name)
            state.update(_result=None, _points=None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _weak(value: Any) -> Any:
    try:
        return weakref.ref(value)
    except TypeError:
        return None


def _say_names(names: list[str], own: list[str]) -> str:
    """Say how the columns differ, in scikit-learn's words."""
    lines = ["The feature names should match those that were passed during fit."]
    unseen, missing = sorted(set(names) - set(own)), sorted(set(own) - set(names))

    def listed(title: str, wrong: list[str]) -> None:
        if wrong:
            lines.append(title)
            lines.extend(f"- {name}" for name in wrong[:5])
            lines.extend(["- ..."] if len(wrong) > 5 else [])

    listed("Feature names unseen at fit time:", unseen)
    listed("Feature names seen at fit time, yet now missing:", missing)
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"
