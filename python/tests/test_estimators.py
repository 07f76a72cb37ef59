# SPDX-License-Identifier: MIT
"""Both estimators: what a fit gives, whatever it is asked, and what it refuses."""

from __future__ import annotations

import copy
import os
import pickle
import re

import kmgen
import numpy as np
import pytest
from conftest import blobs, scores


def agrees(labels, truth):
    """Labels are those of the truth, but for their numbers."""
    pairs = set(zip(labels.tolist(), truth.tolist()))
    return len(pairs) == len(set(truth.tolist())) == len(set(labels.tolist()))


def test_finds_k_and_labels(points, truth):
    sweep = kmgen.KMeansSweep(clusters=range(2, 8)).fit(points)
    assert sweep.best_k_ == 3 and sweep.clustered_
    assert agrees(sweep.labels_, truth)
    assert sweep.labels_.dtype == np.int32 and sweep.labels_.shape == (300,)
    assert list(sweep.models_) == [2, 3, 4, 5, 6, 7]
    assert sweep.n_features_in_ == 3 and not hasattr(sweep, "feature_names_in_")


def test_numbers_are_those_of_the_labels(points):
    sweep = kmgen.KMeansSweep("2..5", labels="all").fit(points)
    for k, model in sweep.models_.items():
        means = np.array([points[model.labels == j].mean(0, dtype=np.float64) for j in range(k)])
        assert np.bincount(model.labels, minlength=k).tolist() == model.sizes.tolist()
        inertia = ((points - model.cluster_centers[model.labels].astype(np.float64)) ** 2).sum()
        assert model.inertia == pytest.approx(inertia, rel=1e-5)
        assert model.sse.sum() == pytest.approx(model.inertia)
        assert np.abs(means - model.cluster_centers).max() < 0.5
    assert sweep.inertia_ == sweep.models_[3].inertia
    assert (sweep.labels_ == sweep.models_[3].labels).all()


def test_predict_transform_score(points):
    sweep = kmgen.KMeansSweep("2..5").fit(points)
    assert (sweep.predict(points) == sweep.labels_).all()
    distances = sweep.transform(points)
    assert distances.shape == (300, 3) and distances.dtype == np.float64
    assert (distances.argmin(1) == sweep.labels_).all()
    assert sweep.score(points) == pytest.approx(-sweep.inertia_, rel=1e-5)
    assert (kmgen.KMeansSweep("2..5").fit_predict(points) == sweep.labels_).all()
    assert np.array_equal(kmgen.KMeansSweep("2..5").fit_transform(points), distances)
    assert sweep.get_feature_names_out().tolist() == ["kmeanssweep0", "kmeanssweep1", "kmeanssweep2"]


def test_scale_is_that_of_the_features():
    pytest.importorskip("sklearn")
    points, truth = blobs()
    uneven = points * np.array([1, 1e4, 1], np.float32) + np.array([0, 5e5, 0], np.float32)
    sweep = kmgen.KMeansSweep("2..5", scale="standard").fit(uneven)
    assert agrees(sweep.labels_, truth)
    assert (sweep.predict(uneven) == sweep.labels_).all()
    assert (sweep.transform(uneven).argmin(1) == sweep.labels_).all()
    assert sweep.score(uneven) == pytest.approx(-sweep.inertia_, rel=1e-4)
    assert sweep.cluster_centers_[:, 1].min() > 4e5  # the units of the points
    with pytest.raises(ValueError, match="no scale"):
        sweep.to_sklearn()


def test_cosine_is_that_of_the_directions():
    pytest.importorskip("sklearn")
    from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score
    from sklearn.preprocessing import normalize

    points, _ = blobs()
    points = points + np.float32(3)
    lengths = np.random.default_rng(1).uniform(0.01, 100, (300, 1)).astype(np.float32)
    sweep = kmgen.KMeansSweep("2..5", metric="cosine", criteria=["silhouette"], labels="all").fit(points * lengths)
    same = kmgen.KMeansSweep("2..5", scale="unit", labels="all").fit(points)
    assert all((sweep.models_[k].labels == same.models_[k].labels).all() for k in sweep.models_)
    unit = normalize(points.astype(np.float64))
    for model in sweep.models_.values():
        centers = model.cluster_centers.astype(np.float64)
        assert np.linalg.norm(centers, axis=1) == pytest.approx(1, abs=1e-6)
        cosines = (unit * centers[model.labels]).sum(1)
        assert cosines == pytest.approx((unit @ centers.T).max(1), abs=1e-6)
        assert model.inertia == pytest.approx(2 * (1 - cosines).sum(), abs=1e-4)
        theirs = calinski_harabasz_score(unit, model.labels)
        assert model.scores["calinski_harabasz"] == pytest.approx(theirs, rel=1e-4)
        theirs = davies_bouldin_score(unit, model.labels)
        assert model.scores["davies_bouldin"] == pytest.approx(theirs, rel=1e-4)
        theirs = silhouette_score(points, model.labels, metric="cosine")
        assert model.scores["silhouette"] == pytest.approx(theirs, abs=1e-4)
    assert (sweep.predict(7 * points) == sweep.labels_).all()
    cosines = unit @ sweep.cluster_centers_.astype(np.float64).T
    assert sweep.transform(points) == pytest.approx(np.sqrt(2 * (1 - cosines)), abs=1e-3)
    assert sweep.score(points) == pytest.approx(-sweep.inertia_, rel=1e-4)
    with pytest.raises(ValueError, match="no cosine"):
        sweep.to_sklearn()
    points[17] = 0
    for refused in (
        lambda: kmgen.KMeans(2, metric="cosine").fit(points),
        lambda: sweep.predict(points),
        lambda: sweep.transform(points),
    ):
        with pytest.raises(ValueError, match=r"^X: row 18: all values are 0, .*; leave such rows out$"):
            refused()
    with pytest.raises(ValueError, match="the scale standard does not go with"):
        kmgen.KMeans(2, metric="cosine", scale="standard").fit(points)


def test_cosine_of_text_is_no_worse_than_normalised_rows():
    """Counts of words of texts on twenty themes: beside scikit-learn's KMeans on rows of length 1."""
    sparse = pytest.importorskip("scipy.sparse")
    cluster = pytest.importorskip("sklearn.cluster")
    from sklearn.feature_extraction.text import TfidfTransformer

    generator = np.random.default_rng(20)
    words, themes, texts = 3000, 20, 1500
    common = 1 / np.arange(1, words + 1)
    shares = np.array([common * generator.gamma(0.2, size=words) for _ in range(themes)])
    shares = 0.5 * shares / shares.sum(1, keepdims=True) + 0.5 * common / common.sum()
    counts = [generator.multinomial(n, shares[i % themes]) for i, n in enumerate(generator.integers(20, 400, texts))]
    tfidf = TfidfTransformer().fit_transform(sparse.csr_matrix(np.array(counts)))
    ours = kmgen.KMeans(themes, metric="cosine", n_init=5).fit(
        sparse.csr_matrix(sparse.diags(generator.uniform(0.1, 9, texts)) @ tfidf)
    )
    theirs = cluster.KMeans(themes, n_init=5, random_state=0).fit(tfidf)

    def objective(labels):
        sums = np.array([np.asarray(tfidf[labels == j].sum(0)).ravel() for j in range(themes)])
        return texts - np.linalg.norm(sums, axis=1).sum()

    assert ours.inertia_ == pytest.approx(2 * objective(ours.labels_), rel=1e-5)
    assert objective(ours.labels_) <= objective(theirs.labels_) * (1 + 1e-6)


def test_weights_count(points):
    weights = np.ones(300)
    weights[::3] = 5
    plain, weighted = (kmgen.KMeans(3).fit(points, sample_weight=w) for w in (None, weights))
    assert weighted.inertia_ > plain.inertia_
    assert sorted(weighted.models_[3].weights) == [100, 100, 500]
    same = kmgen.KMeans(3).fit(points, sample_weight=np.ones(300))
    assert same.inertia_ == plain.inertia_
    assert weighted.score(points, sample_weight=weights) == pytest.approx(-weighted.inertia_, rel=1e-5)
    for wrong, said in ((np.ones(5), "expected"), (np.zeros(300), "zero"), (-weights, "0 or more")):
        with pytest.raises(ValueError, match=said):
            kmgen.KMeans(3).fit(points, sample_weight=wrong)


@pytest.mark.parametrize("state", [7, np.int64(7), np.random.RandomState(7), np.random.default_rng(7), None])
def test_random_state(points, state):
    kmgen.KMeans(5, random_state=state, init="random", n_init=2, refine=None).fit(points)


def test_same_seed_same_bits(points):
    first, second = (kmgen.KMeansSweep("2..6", random_state=3, threads=t).fit(points) for t in (1, 2))
    for k in first.models_:
        assert first.models_[k].cluster_centers.tobytes() == second.models_[k].cluster_centers.tobytes()


def test_given_centroids(points):
    rows = points[[0, 1, 2, 3]].astype(np.float64)
    sweep = kmgen.KMeansSweep([2, 4], init=rows, max_iter=1).fit(points)
    assert sweep.models_[4].restarts == 1
    with pytest.raises(ValueError, match="3 columns"):
        kmgen.KMeansSweep([2, 4], init=rows[:, :2]).fit(points)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"clusters": "2..x"}, "clusters"),
        ({"clusters": [2.5]}, "whole numbers"),
        ({"clusters": []}, "clusters"),
        ({"clusters": b"2..4"}, "clusters"),
        ({"clusters": True}, "clusters"),
        ({"n_init": 0}, "n_init"),
        ({"criterion": "elbow"}, "calinski_harabasz"),
        ({"criteria": ["nothing"]}, "silhouette"),
        ({"criteria": 3}, "criteria must be a list"),
        ({"init": "magic"}, "k-means\\+\\+"),
        ({"init": np.zeros((4, 3), complex)}, "init is complex"),
        ({"init": [["a", "b", "c"]]}, "init does not hold numbers"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 10**30}, "max_iter must be a whole number of at most"),
        ({"tol": -1.0}, "tol"),
        ({"algorithm": "fast"}, "lloyd"),
        ({"scale": "log"}, "standard"),
        ({"metric": "angle"}, "euclidean"),
        ({"refine": "much"}, "refine"),
        ({"device": "tpu"}, "cuda"),
        ({"dtype": "float16"}, "float32"),
        ({"dtype": None}, "dtype must be"),
        ({"dtype": 3}, "dtype must be"),
        ({"memory_max": 2**64 + 5}, "memory_max must be a whole number of at most"),
        ({"cache_dir": "a\0b"}, "zero byte"),
        ({"labels": "some"}, "best"),
        ({"random_state": -1}, "random_state"),
        ({"threads": 0}, "threads"),
    ],
)
def test_what_is_refused_is_named(points, params, said):
    with pytest.raises(ValueError, match=said):
        kmgen.KMeansSweep(**params).fit(points)


def test_criteria_on_request(points):
    sweep = kmgen.KMeansSweep("2..4", criterion="silhouette", criteria=["stability"]).fit(points)
    assert sweep.best_k_ == 3
    pytest.importorskip("pandas")
    table = sweep.criteria_
    assert list(table.index) == [2, 3, 4] and table["silhouette"].idxmax() == 3 and "stability" in table
    assert "gap" not in table
    assert sweep.votes_["silhouette"] == 3


def test_pickle_and_copy_keep_the_model(points):
    sweep = kmgen.KMeansSweep("2..5").fit(points)
    for other in (pickle.loads(pickle.dumps(sweep)), copy.deepcopy(sweep)):
        assert (other.predict(points) == sweep.labels_).all()
        assert np.array_equal(other.transform(points), sweep.transform(points))
        assert (other.models_[2].predict(points) == sweep.models_[2].predict(points)).all()
        assert scores(other) == scores(sweep) and other.votes_ == sweep.votes_
        assert str(other.plan_) == str(sweep.plan_) and other.timing_ == sweep.timing_
        assert other.get_params() == sweep.get_params()
    unfitted = pickle.loads(pickle.dumps(kmgen.KMeans(4)))
    assert unfitted.n_clusters == 4


def test_before_fit(points):
    for act in ("predict", "transform", "score"):
        with pytest.raises(kmgen.NotFittedError, match="not fitted"):
            getattr(kmgen.KMeans(2), act)(points)
    assert not hasattr(kmgen.KMeans(2), "models_")


def test_params():
    sweep = kmgen.KMeansSweep(clusters="2..5", tol=0.1)
    assert sweep.get_params()["tol"] == 0.1
    assert repr(sweep.set_params(n_init=3)) == "KMeansSweep(clusters='2..5', n_init=3, tol=0.1)"
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        sweep.set_params(nothing=1)


def test_warnings_are_of_our_category():
    points = np.random.default_rng(0).uniform(size=(200, 2)).astype(np.float32)
    with pytest.warns(kmgen.KmgenWarning) as caught:
        sweep = kmgen.KMeansSweep([2, 5, 300]).fit(points)
    assert [str(w.message) for w in caught] == sweep.warnings_
    assert caught[0].filename == __file__  # the caller's own line


def test_plan_and_timing(points):
    sweep = kmgen.KMeansSweep("2..4", device="cpu").fit(points)
    assert sweep.plan_.target.startswith("cpu:") and sweep.plan_.design in ("prebuilt", "lanes", "gemm")
    assert set(sweep.plan_.numbers) == set(sweep.plan_.reasons) and "target: cpu" in str(sweep.plan_)
    assert 0 < sweep.timing_["total"] < 60e3


def test_models_in_files(points, tmp_path):
    sweep = kmgen.KMeansSweep("2..4").fit(points)
    sweep.save(str(tmp_path / "model.json"))
    read = kmgen.load(str(tmp_path / "model.json"))
    assert read.n_clusters == 3 and read.n_features == 3
    assert (read.predict(points) == sweep.labels_).all()
    with pytest.raises(OSError, match=r"nothing\.json"):
        kmgen.load(str(tmp_path / "nothing.json"))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="no kmgen model"):
        kmgen.load(str(tmp_path / "bad.json"))


@pytest.mark.parametrize("n", [0, 2.0, True, None, [2], "2", 10**30])
def test_one_k_is_a_whole_number(points, n):
    with pytest.raises(ValueError, match="n_clusters must be"):
        kmgen.KMeans(n).fit(points)


def test_paths_are_paths(points, tmp_path):
    sweep = kmgen.KMeansSweep("2..4").fit(points)
    for act in (sweep.save, kmgen.load, sweep.report):
        for wrong in (None, 3):
            with pytest.raises(TypeError, match="PathLike"):
                act(wrong)
        with pytest.raises(ValueError, match="zero byte"):
            act("a\0b")
    sweep.save(tmp_path / "m.json", k=2)
    assert kmgen.load(os.fsencode(tmp_path / "m.json")).n_clusters == 2
    with pytest.raises(ValueError, match=r"K = 9 is not in the list of the fit: \[2, 3, 4\]"):
        sweep.save(tmp_path / "m.json", k=9)


def test_report(points, tmp_path):
    sweep = kmgen.KMeansSweep("2..4").fit(points)
    sweep.report(tmp_path / "page.html", title="three blobs")
    assert "three blobs" in (tmp_path / "page.html").read_text()
    kept = pickle.loads(pickle.dumps(sweep))
    with pytest.raises(ValueError, match="unpickled"):
        kept.report(tmp_path / "again.html", points)
    with pytest.raises(ValueError, match="cannot be made of X, which has 5"):
        sweep.report(tmp_path / "again.html", points[:5])
    sweep.fit(points.copy())
    with pytest.raises(ValueError, match="give them"):
        sweep.report(tmp_path / "again.html")
    with pytest.raises(OSError, match="nowhere"):
        sweep.report("/nowhere/page.html", points)


def test_find_k(points):
    answer = kmgen.find_k(points, clusters=[2, 3, 4, 5])
    assert answer.k == 3 and answer.clustered and "3" in answer.reason
    assert "best K = 3" in str(answer) and repr(answer).startswith("<K = 3: ")
    page = answer._repr_html_()
    assert page.count("<tr") == 5 and ">K = 3</b>" in page and "300 points, 3 features; 4 K from 2 to 5" in page
    assert 'title="100, 100, 100 points"' in page  # the shares of K = 3
    for row in page.split("<tr")[2:]:
        assert sum(map(float, re.findall(r"width:([\d.]+)%", row))) == pytest.approx(100, abs=0.1)
    assert answer.sweep.models_[answer.k].inertia == answer.sweep.inertia_


@pytest.mark.parametrize("way", ["pandas", "polars", "pyarrow"])
def test_find_k_of_a_table(points, way):
    library = pytest.importorskip(way)
    make = library.table if way == "pyarrow" else library.DataFrame
    n = len(points)
    features = {"age": points[:, 0], "height": points[:, 1], "is_open": np.arange(n) % 2 == 0, "c": points[:, 2]}
    others = {
        "customer_id": np.random.default_rng(0).permutation(n),
        "year": np.arange(n) + 1900,  # rises by whole steps
        "city": ["Oslo", "Rome"] * (n // 2),
        "since": np.arange(n).astype("M8[D]").astype("M8[ms]"),
    }
    with pytest.warns(kmgen.KmgenWarning, match=r"features are age, height, is_open, c; left out: ") as caught:
        answer = kmgen.find_k(make({**others, **features}), "2..5")
    assert "customer_id (id), year (id), city (text), since (date)" in str(caught[0].message)
    assert answer.sweep.warnings_[0] == str(caught[0].message) and "customer_id (id)" in answer._repr_html_()
    wanted = kmgen.find_k(np.column_stack([*features.values()]), "2..5")
    assert answer.k == 3 and list(answer.sweep.feature_names_in_) == list(features)
    assert (answer.labels == wanted.labels).all() and answer.sweep.inertia_ == wanted.sweep.inertia_
    # What an estimator is given it uses, or refuses.
    with pytest.raises(ValueError, match="column city does not hold numbers"):
        kmgen.KMeansSweep("2..5").fit(make({**features, "city": others["city"]}))
    assert kmgen.KMeans(3).fit(make({**features, "year": others["year"]})).n_features_in_ == 5


def test_find_k_of_ids_only():
    pandas = pytest.importorskip("pandas")
    rises = pandas.DataFrame({"year": np.arange(60), "city": "Oslo"})
    with pytest.warns(kmgen.KmgenWarning, match="features are year; left out: city"):
        assert kmgen.find_k(rises, "2..3").sweep.n_features_in_ == 1
    with pytest.raises(ValueError, match=r"no column of numbers that is no id: id \(id\), city \(text\)"):
        kmgen.find_k(pandas.DataFrame({"id": np.arange(60), "city": "Oslo"}))
    missing = pandas.DataFrame({"user_id": [1.0, 2.0, np.nan, 4.0] * 5, "x": np.arange(20) * 0.5 + 0.25})
    with pytest.warns(kmgen.KmgenWarning, match="left out: user_id"):
        kmgen.find_k(missing, "2..3")


def test_a_page_of_an_answer_is_safe():
    points, _ = blobs()
    answer = kmgen.find_k(points, [2, 3])._replace(reason="<script>alert(1)</script>")
    assert "<script>" not in answer._repr_html_()


OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")  # of the program


def scipy_csr(points):
    return pytest.importorskip("scipy.sparse").csr_array(points)


def advice_of(points, clusters, **options):
    with pytest.warns(kmgen.KmgenWarning):
        return kmgen.KMeansSweep(clusters, **options).fit(points).warnings_


def test_advice_is_in_pythons_words():
    draw = np.random.default_rng(3)
    blobs_of_3 = blobs(n=3000)[0]
    many = 10 * draw.uniform(size=(60, 2))[draw.integers(60, size=4000)]
    wide = draw.normal(size=(500, 2)) * [1, 100] + np.where(draw.random(500) < 0.5, 0, 5000)[:, None] * [0, 1]
    said = [
        *advice_of(draw.uniform(size=(5000, 2)), "2..6"),
        *advice_of(blobs_of_3, "2..3"),
        *advice_of(many + 0.05 * draw.normal(size=(4000, 2)), [60], init="random", refine=None),
        *advice_of(wide, "2..4"),
        *advice_of(np.vstack([blobs_of_3, [[1e4, 1e4, 1e4]]]), "2..4"),
    ]
    for what in ("look like no clusters", "a wider list", "other seeds may", "decides alone", "one point only"):
        assert any(what in sentence for sentence in said), (what, said)
    assert not [sentence for sentence in said if OPTION.search(sentence)]
    assert any('clusters="2..6"' in sentence for sentence in said)
    assert any("n_init=50" in sentence for sentence in said)
    assert any('scale="standard"' in sentence for sentence in said)


def test_ways_out_are_in_pythons_words():
    points = blobs()[0]
    points[5, 1] = np.nan
    with pytest.raises(ValueError, match=r"row 6, column 2: the value is missing \(NaN\); leave such rows out"):
        kmgen.KMeans(2).fit(points)
    with pytest.raises(MemoryError, match=r"do not fit.*needs") as caught:
        kmgen.KMeans(2, memory_max=1 << 20).fit(np.zeros((4_000_000, 4)))
    assert not OPTION.search(str(caught.value))
    far = np.where(np.arange(900)[:, None] % 300 == 7, 3e30, blobs(n=900)[0].astype(np.float64))
    for X, said in (
        (far, r'^X: row 8, column 1: 3e\+30 is so far .*; use float64 \(dtype="float64"\), or leave such rows out$'),
        (scipy_csr(points), r"^X: row 6, .*missing \(NaN\); leave such rows out, or fill them in$"),
    ):
        with pytest.raises(ValueError, match=said):
            kmgen.KMeans(2).fit(X)
    assert kmgen.KMeans(2, dtype="float64").fit(far).labels_.sum() in (3, 897)  # the way out
    with pytest.raises(ValueError, match=r'^X is sparse: .*; use scale="standard"$'):
        kmgen.KMeans(2, scale="robust").fit(scipy_csr(blobs()[0]))


def test_report_is_in_pythons_words(tmp_path):
    """All that is written for people in the page, whose script and style have names of their own."""
    X = np.random.default_rng(3).uniform(size=(900, 2)).astype(np.float32)
    with pytest.warns(kmgen.KmgenWarning, match="look like no clusters"):
        kmgen.KMeansSweep("2..4").fit(X).report(str(tmp_path / "page.html"), X)
    page = re.sub(r"(?s)<(script|style)\b.*?</\1>|<[^>]*>", " ", (tmp_path / "page.html").read_text())
    assert "look at the data (plot_clusters)" in page and "criteria measures them" in page
    assert not OPTION.search(page), OPTION.findall(page)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tol": "x"}, "tol must be a number; got 'x'"),
        ({"tol": None}, "tol must be a number; got None"),
        ({"verbose": "x"}, "verbose must be a whole number"),
        ({"verbose": -1}, "verbose must be a whole number"),
        ({"criteria": ["silhouette", "x"]}, "each of criteria must be one of"),
        ({"init": None}, "init must be 'k-means\\+\\+', 'random' or an array"),
        ({"init": 3}, "init must be 'k-means\\+\\+', 'random' or an array"),
    ],
)
def test_wrong_parameters_are_named(points, wrong, said):
    with pytest.raises(ValueError, match=said):
        kmgen.KMeansSweep("2..4", **wrong).fit(points)


def test_weights_are_named(points):
    with pytest.raises(ValueError, match=r"^sample_weight: point 0: a weight must be 0 or more"):
        kmgen.KMeans(2).fit(points, sample_weight=-np.ones(300))
    with pytest.raises(ValueError, match=r"^X has 300 points, fewer than"):
        kmgen.KMeans(301).fit(points)
