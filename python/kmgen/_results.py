# SPDX-License-Identifier: MIT
"""What a fit found: one model a K, read from the library when somebody looks at it."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._arrays import Data, Doubles, Points, take
from ._call import Watch, new_params, set_device

Labels = npt.NDArray[np.int32]

_SCALE_UNIT = 4  # KM_SCALE_UNIT


def _array(address: int | None, dtype: Any, *shape: int) -> npt.NDArray[Any]:
    """Copy an array of the library's memory."""
    count = 1
    for size in shape:
        count *= size
    if not address or count == 0:
        return np.empty(shape, dtype)
    raw = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    copied: npt.NDArray[Any] = np.frombuffer(raw, dtype).reshape(shape).copy()
    return copied


def _labels_of(address: int, rows: int, owner: Any) -> Labels:
    """Show labels in the library's memory, which the array keeps alive by its owner."""
    if rows == 0:
        return np.empty(0, np.int32)
    raw: Any = (ctypes.c_int32 * rows).from_address(address)
    raw.owner = owner
    return np.frombuffer(raw, np.int32)


class Predictor:
    """A model that labels points: of a fit, or read from a file that the program or ``save`` wrote.

    Attributes
    ----------
    n_clusters, n_features : int
        Clusters of the model, and features of its points.
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._free = weakref.finalize(self, lib.dll.km_predictor_destroy, ctypes.byref(handle))
        self.n_clusters = int(lib.dll.km_predictor_clusters(handle))
        self.n_features = int(lib.dll.km_predictor_features(handle))

    @classmethod
    def _made(cls, function: str, *arguments: Any) -> Predictor:
        handle = ctypes.c_void_p()
        lib.call(function, ctypes.byref(handle), *arguments)
        return cls(handle)

    @classmethod
    def from_json(cls, text: str) -> Predictor:
        """Read the text of a model file.

        Parameters
        ----------
        text : str
            What `to_json` gave, or a file's text.

        Returns
        -------
        Predictor
            The model.

        Raises
        ------
        ValueError
            The text is no model, or was changed.
        """
        raw = text.encode()
        return cls._made("km_predictor_parse", raw, len(raw), b"the model")

    def to_json(self) -> str:
        """Write the text of a model file, which ``kmgen predict`` reads.

        Returns
        -------
        str
            JSON, the same for the same model; doubles keep all their bits.
        """
        return lib.take_text("km_predictor_to_json", self._handle)

    def predict(self, X: Any, *, threads: int | None = None, device: str = "auto") -> Labels:
        """Label points by their nearest centroid.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, n_features)
            The points.
        threads : int, optional
            CPU threads; default: all.
        device : str
            ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"auto"``: the GPU that the points lie on, else the CPU.

        Returns
        -------
        ndarray of int32 of shape (n,)
            Labels from 0 to ``n_clusters - 1``.

        Raises
        ------
        ValueError
            The points have another number of features, or values that are missing or infinite.
        DeviceError, CompileError
            The device that was asked for is not there or failed; a kernel could not be compiled for it.
        KeyboardInterrupt
            By Ctrl-C, within 0.2 s.
        """
        params = new_params(threads)
        set_device(params, None, device)
        points = take(X, "predict")
        if device == "cuda" and points.device is None:
            params.device = 0
        labels = np.empty(points.n, np.int32)
        watch = Watch(params)
        try:
            with points.open() as data:
                lib.call("km_predict", labels.ctypes.data, self._handle, data.handle, ctypes.byref(params))
        finally:
            watch.close()
        return labels

    def __reduce__(self) -> Any:
        return Predictor.from_json, (self.to_json(),)


def load(path: str) -> Predictor:
    """Read a model that ``kmgen fit --model``, ``save`` or ``Model.save`` wrote.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    Predictor
        The model.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        The file is no model, or was changed.
    """
    return Predictor._made("km_predictor_read", lib.path_of(path))


class Model:
    """The best restart of one K.

    Attributes
    ----------
    k, effective_k : int
        Clusters that were asked for, and those that have points.
    inertia : float
        Sum of weighted squared distances to the centroids, in the space that was clustered.
    cluster_centers : ndarray of float64 of shape (k, d)
        Centroids, in the units of the points.
    sizes : ndarray of int64 of shape (k,)
        Points of each cluster.
    weights, sse : ndarray of float64 of shape (k,)
        Sum of weights, and inertia, of each cluster.
    n_iter, restart, restarts, restarts_agreed : int
        Iterations of the restart that won, its number, how many there were, and how many found the same clusters.
    converged, refined, at_rest : bool
        Not stopped by ``max_iter``; found by refinement; iterated until nothing moved.
    restart_inertia : ndarray of float64 of shape (restarts,)
        What each restart ended with.
    scores, score_errors : dict of str to float
        Each criterion that is defined, and standard errors of those of a sample.
    valleys : ndarray of float64 of shape (k,)
        How clearly each cluster is apart from a neighbour, in standard errors; NaN: not measured.
    labels : ndarray of int32 of shape (n,) or None
        Labels, where the fit was told to keep those of every K (``labels="all"``), and those of the best K.
    """

    def __init__(self, result: Result, index: int) -> None:
        raw = result._model(index)
        k, d = int(raw.k), result.d
        self.k, self.effective_k = k, int(raw.effective_k)
        self.inertia = float(raw.inertia)
        self.n_iter, self.restart = int(raw.n_iter), int(raw.restart)
        self.restarts, self.restarts_agreed = int(raw.restarts), int(raw.restarts_agreed)
        self.converged, self.refined, self.at_rest = bool(raw.converged), bool(raw.refined), bool(raw.at_rest)
        self.cluster_centers: Doubles = _array(raw.centroids, np.float64, k, d)
        self.weights: Doubles = _array(raw.weights, np.float64, k)
        self.sizes = _array(raw.counts, np.int64, k)
        self.sse: Doubles = _array(raw.sse, np.float64, k)
        self.restart_inertia: Doubles = _array(raw.restart_inertia, np.float64, self.restarts)
        self.valleys: Doubles = _array(raw.valleys, np.float64, k) if raw.valleys else np.full(k, np.nan)
        self.labels: Labels | None = _labels_of(raw.labels, result.rows, result) if raw.labels else None
        self.scores = self._by_criterion(raw.scores)
        self.score_errors = self._by_criterion(raw.score_errors)
        self._made_of: tuple[Result, int] | None = (result, index)
        self._predictor: Predictor | None = None

    @staticmethod
    def _by_criterion(raw: Any) -> dict[str, float]:
        values = np.frombuffer(raw, np.float64).tolist()
        return {name: value for name, value in zip(lib.CRITERIA, values) if value == value}  # not NaN

    @property
    def predictor(self) -> Predictor:
        """The model as what labels points."""
        if self._predictor is None:
            assert self._made_of is not None
            result, index = self._made_of
            self._predictor = Predictor._made("km_predictor_create", result.handle, index)
        return self._predictor

    def predict(self, X: Any) -> Labels:
        """Label points by their nearest centroid of this K, on the GPU that they lie on, else on the CPU.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n, d)
            The points.

        Returns
        -------
        ndarray of int32 of shape (n,)
            Labels from 0 to ``k - 1``.

        Raises
        ------
        ValueError
            The points have another number of features, or values that are missing or infinite.
        """
        return self.predictor.predict(X)

    def save(self, path: str) -> None:
        """Write the model to a file that ``kmgen.load`` and ``kmgen predict`` read.

        Parameters
        ----------
        path : str
            The file; one that is there is replaced as a whole.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        lib.call("km_text_write", lib.path_of(path), self.predictor.to_json().encode())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_predictor": self.predictor, "_made_of": None}

    def __repr__(self) -> str:
        return f"<Model k={self.k} inertia={self.inertia:.6g}>"


class Plan:
    """How a fit was computed: the design, its numbers with their reasons, and the text of ``kmgen explain``.

    Attributes
    ----------
    design, algorithm, target, device : str
        Kernel, what it skips, what it was made for, and the device's name.
    memory_bytes : int
        What the fit takes on the device.
    numbers : dict of str to str
        Every number of the plan.
    reasons : dict of str to str
        Why each is that.
    """

    def __init__(self, address: int, target: str, device: str) -> None:
        raw = lib.Plan.from_address(address)
        self.target, self.device = target, device
        self.design = str(lib.dll.km_design_name(raw.design).decode())
        self.algorithm = lib.ALGORITHMS[raw.algorithm]
        self.memory_bytes = int(raw.memory_bytes)
        numbers = (lib.PlanNumber * int(raw.numbers_count)).from_buffer_copy(raw.numbers)
        self.numbers = {n.name.decode(): n.text.decode() for n in numbers}
        self.reasons = {n.name.decode(): n.reason.decode() for n in numbers}
        self._text = lib.take_text("km_plan_explain", address)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Plan {self.design} for {self.target}, {self.algorithm}>"


class Result:
    """A km_result, freed with the object; what is read of it is a copy."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle = handle
        self._free = weakref.finalize(self, lib.dll.km_result_destroy, ctypes.byref(handle))
        self._free.atexit = False  # arrays of labels may be looked at to the very end
        assert handle.value is not None
        self._address = handle.value
        self._raw = raw = lib.Result.from_address(handle.value)
        self._models = (lib.Model * int(raw.models_count)).from_address(raw.models)
        self._selection = lib.Selection.from_buffer_copy(raw.selection)
        self.n, self.d, self.rows = int(raw.n), int(raw.d), int(raw.rows)
        self.best = int(self._selection.best)
        self.clustered = bool(self._selection.clustered)
        self.interrupted = bool(raw.interrupted)
        self.is_unit = int(raw.scale) == _SCALE_UNIT
        self.factor: Doubles = _array(raw.factor, np.float64, self.d)

    def _model(self, index: int) -> Any:
        return self._models[index]

    @property
    def reason(self) -> str:
        return str(self._selection.reason.decode(errors="replace"))

    @property
    def criterion(self) -> str:
        asked = int(self._selection.asked)
        return "auto" if asked < 0 else lib.CRITERIA[asked]

    @property
    def votes(self) -> dict[str, int]:
        """K that each criterion prefers, of those that were computed and prefer one."""
        raw = np.frombuffer(self._selection.votes, np.int64)
        return {name: int(k) for name, k in zip(lib.CRITERIA, raw) if k > 0}

    @property
    def timing(self) -> dict[str, float]:
        """Milliseconds of each phase."""
        raw = lib.Timing.from_buffer_copy(self._raw.timing)
        return {name[:-3]: float(getattr(raw, name)) for name, _ in raw._fields_ if name.endswith("_ms")}

    @property
    def plan(self) -> Plan:
        address = self._address + lib.Result.plan.offset
        return Plan(address, self._raw.target.decode(), self._raw.device.decode(errors="replace"))

    @property
    def warnings(self) -> list[str]:
        texts = (ctypes.c_char_p * int(self._raw.warnings_count)).from_address(self._raw.warnings or self._address)
        return [text.decode(errors="replace") for text in texts if text is not None]

    @property
    def models(self) -> dict[int, Model]:
        """Read the model of every K."""
        found = [Model(self, i) for i in range(len(self._models))]
        return {model.k: model for model in found}

    def table(self, verbose: bool = False) -> str:
        """Make the table that the program prints."""
        return lib.take_text("km_result_to_table", self.handle, 2, int(verbose))

    def to_json(self) -> str:
        return lib.take_text("km_result_to_json", self.handle)

    def report(self, path: Any, points: Points, weights: Doubles | None, title: str) -> None:
        params = lib.ReportParams()
        lib.dll.km_report_params_init(ctypes.byref(params))
        keep = str(title).encode(errors="replace")
        params.title = ctypes.cast(ctypes.c_char_p(keep), ctypes.c_void_p)
        with points.open(weights) as data:
            self._report(path, data, params)

    def _report(self, path: Any, data: Data, params: Any) -> None:
        lib.call("km_result_report", lib.path_of(path), self.handle, data.handle, ctypes.byref(params))
