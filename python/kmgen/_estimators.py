# SPDX-License-Identifier: MIT
"""The estimators: k-means for a list of K, and for one K by scikit-learn's names."""

from __future__ import annotations

from typing import Any

from ._clusterers import Clusterer
from ._fit import whole


class KMeansSweep(Clusterer):
    """k-means for a whole list of K and all restarts at once, and the best K.

    Parameters
    ----------
    clusters : str, range, list of int or int
        The list of K: a spec's text (``"2..12"``, ``"2..20 step 2"``, ``"3,5,8"``), or whole numbers.
    n_init : int or "auto"
        Restarts of each K. ``"auto"`` is scikit-learn's: 10 with ``init="random"``, else 1.
    criterion : str
        What decides: ``"auto"``, several criteria and whether clusters are apart, or the name of one
        (docs/criteria.md).
    criteria : list of str or "all", optional
        Criteria that are computed beyond those of the last pass: ``"silhouette"``, ``"silhouette_euclidean"``,
        ``"stability"``, ``"prediction_strength"``, ``"gap"``, ``"gap_2001"``.
    init : {"k-means++", "random"} or array of shape (m, d)
        Where first centroids come from. Rows: as many as the largest K, of which each K takes its first K; or those of
        every K in ascending order. Rows mean one restart.
    tol : float
        A restart stops when the squared shift of its centroids is at most this times the mean variance of the features.
    max_iter : int
        Iterations of a restart at most.
    algorithm : {"auto", "lloyd", "tiles", "hamerly", "elkan"}
        Which distances are skipped; ``"auto"`` takes what pays.
    scale : {None, "standard", "minmax", "robust", "unit"}
        Scaling of the features before clustering; centroids come back in the points' units. ``"unit"`` divides each
        point by its length: the same as ``metric="cosine"``.
    metric : {"euclidean", "cosine"}
        What is near. ``"cosine"``: points are divided by their length, and centroids after each update (spherical
        k-means). Inertia and distances are then those of points of length 1: ``2 (1 - cos)``, and its root.
    refine : "auto", None or int
        Each K is also started from the models of its neighbours in the list: up to a share of the work, not at all, or
        this many passes at most.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    dtype : {"float32", "float64"}
        Type of the kernels. Sums and scores are double in any case.
    labels : {"best", "all"}
        Whose labels are kept: of the best K, or of every K (4 bytes a point and K).
    random_state : int, RandomState, Generator or None
        The seed: the same int gives the same bits. None: another one each time, from NumPy's global state.
    threads : int, optional
        CPU threads; default: OMP_NUM_THREADS, else all cores. Never changes the result.
    cache_dir : str, optional
        Folder of compiled modules; default: that of the program.
    memory_max, device_memory_max : int, optional
        Bytes that the process may hold, and that the fit may take of a GPU: the plan keeps within, or MemoryError is
        raised before a point is read; points that do not fit the GPU stay on the host. Default: what is free.
    scratch_dir : str, optional
        Folder of a disk: on the CPU, what does not fit into memory lies in temporary files there, with the same result.
    time_max : float, optional
        Seconds after which a fit that iterates ends with the best of its runs as far as they came (``interrupted_``).
    verbose : int
        1: progress by tqdm, where that is installed and a terminal or notebook is there; 2: the library's log too, by
        ``logging``, as "kmgen".

    Attributes
    ----------
    best_k_ : int
        The chosen K.
    reason_ : str
        Why, in one sentence.
    clustered_ : bool
        False where the points look like no clusters.
    interrupted_ : bool
        True where ``time_max`` ended the fit.
    labels_ : ndarray of int32 of shape (n,)
        Labels of the chosen K.
    cluster_centers_ : ndarray of float64 of shape (best_k_, d)
        Its centroids, in the units of the points.
    inertia_ : float
        Its inertia, in the space that was clustered.
    n_iter_ : int
        Iterations of the restart that found it.
    models_ : dict of int to Model
        The model of every K.
    criteria_ : DataFrame or dict
        Criteria of every K.
    votes_ : dict of str to int
        The K that each criterion prefers.
    warnings_ : list of str
        What the library warned of; also given as `KmgenWarning`.
    plan_ : Plan
        How the fit was computed.
    timing_ : dict of str to float
        Milliseconds of each phase.
    n_features_in_ : int
        Features of the points.
    feature_names_in_ : ndarray of str of shape (d,)
        Their names, where the points were a table with names.

    Examples
    --------
    >>> import numpy as np
    >>> from kmgen import KMeansSweep
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [20.0], [20.1], [20.2]])
    >>> sweep = KMeansSweep(clusters="2..4").fit(X)
    >>> sweep.best_k_
    3
    """

    def __init__(
        self,
        clusters: Any = "2..12",
        *,
        n_init: Any = 10,
        criterion: str = "auto",
        criteria: Any = None,
        init: Any = "k-means++",
        tol: float = 1e-4,
        max_iter: int = 300,
        algorithm: str = "auto",
        scale: str | None = None,
        metric: str = "euclidean",
        refine: Any = "auto",
        device: str = "auto",
        dtype: Any = "float32",
        labels: str = "best",
        random_state: Any = 0,
        threads: int | None = None,
        cache_dir: str | None = None,
        memory_max: int | None = None,
        device_memory_max: int | None = None,
        scratch_dir: str | None = None,
        time_max: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.clusters = clusters
        self.n_init = n_init
        self.criterion = criterion
        self.criteria = criteria
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.algorithm = algorithm
        self.scale = scale
        self.metric = metric
        self.refine = refine
        self.device = device
        self.dtype = dtype
        self.labels = labels
        self.random_state = random_state
        self.threads = threads
        self.cache_dir = cache_dir
        self.memory_max = memory_max
        self.device_memory_max = device_memory_max
        self.scratch_dir = scratch_dir
        self.time_max = time_max
        self.verbose = verbose

    def _options(self) -> dict[str, Any]:
        return self.get_params()

    def _clusters(self) -> Any:
        return self.clusters


class KMeans(Clusterer):
    """k-means for one K, by scikit-learn's names; usable in a Pipeline and GridSearchCV.

    Parameters
    ----------
    n_clusters : int
        K, from 1 to 65,535.
    init : {"k-means++", "random"} or array of shape (n_clusters, d)
        Where first centroids come from. An array means one restart.
    n_init : int or "auto"
        Restarts; the one with the least inertia is kept. ``"auto"``: 10 with ``init="random"``, else 1.
    max_iter : int
        Iterations of a restart at most.
    tol : float
        A restart stops when the squared shift of its centroids is at most this times the mean variance of the features.
    verbose : int
        1: progress by tqdm; 2: the library's log too, by ``logging``.
    random_state : int, RandomState, Generator or None
        The seed: the same int gives the same bits. None: another one each time.
    algorithm : {"auto", "lloyd", "tiles", "hamerly", "elkan"}
        Which distances are skipped; ``"auto"`` takes what pays.
    scale : {None, "standard", "minmax", "robust", "unit"}
        Scaling of the features before clustering; centroids come back in the points' units.
    metric : {"euclidean", "cosine"}
        What is near. ``"cosine"`` is spherical k-means, of points of length 1.
    refine : "auto", None or int
        Of no effect with one K; there so that parameters may be those of `KMeansSweep`.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    dtype : {"float32", "float64"}
        Type of the kernels. Sums and scores are double in any case.
    threads : int, optional
        CPU threads; default: OMP_NUM_THREADS, else all cores. Never changes the result.
    cache_dir : str, optional
        Folder of compiled modules; default: that of the program.
    memory_max, device_memory_max : int, optional
        Bytes that the process may hold, and that the fit may take of a GPU.
    scratch_dir : str, optional
        Folder of a disk for what does not fit into memory, on the CPU.
    time_max : float, optional
        Seconds after which a fit that iterates ends with the best of its runs as far as they came (``interrupted_``).

    Attributes
    ----------
    labels_ : ndarray of int32 of shape (n,)
        Labels of the points.
    cluster_centers_ : ndarray of float64 of shape (n_clusters, d)
        Centroids, in the units of the points.
    inertia_ : float
        Sum of weighted squared distances to the nearest centroid, in the space that was clustered.
    n_iter_ : int
        Iterations of the restart that won.
    n_features_in_ : int
        Features of the points.
    feature_names_in_ : ndarray of str of shape (d,)
        Their names, where the points were a table with names.
    models_, criteria_, votes_, warnings_, plan_, timing_, best_k_, reason_, clustered_, interrupted_
        As of `KMeansSweep`, of one K.

    Examples
    --------
    >>> import numpy as np
    >>> from kmgen import KMeans
    >>> KMeans(2).fit_predict(np.array([[0.0], [0.1], [9.0], [9.1]])).tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Any = 10,
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = 0,
        algorithm: str = "auto",
        scale: str | None = None,
        metric: str = "euclidean",
        refine: Any = "auto",
        device: str = "auto",
        dtype: Any = "float32",
        threads: int | None = None,
        cache_dir: str | None = None,
        memory_max: int | None = None,
        device_memory_max: int | None = None,
        scratch_dir: str | None = None,
        time_max: float | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.algorithm = algorithm
        self.scale = scale
        self.metric = metric
        self.refine = refine
        self.device = device
        self.dtype = dtype
        self.threads = threads
        self.cache_dir = cache_dir
        self.memory_max = memory_max
        self.device_memory_max = device_memory_max
        self.scratch_dir = scratch_dir
        self.time_max = time_max

    def _options(self) -> dict[str, Any]:
        return {**self.get_params(), "criterion": "auto", "criteria": None, "labels": "best"}

    def _clusters(self) -> Any:
        return [whole("n_clusters", self.n_clusters, 1, 65535)]
