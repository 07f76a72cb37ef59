# SPDX-License-Identifier: MIT
"""Points of every kind give the same models as a NumPy array of them."""

from __future__ import annotations

import kmgen
import numpy as np
import pytest
from conftest import blobs


def bits(estimator):
    return [m.cluster_centers.tobytes() for m in estimator.models_.values()]


def fitted(points, **params):
    return kmgen.KMeansSweep("2..4", device="cpu", **params).fit(points)


@pytest.fixture
def doubles():
    return blobs(dtype=np.float64)[0]


def test_orders_of_memory(doubles):
    wanted = bits(fitted(doubles))
    wide = np.zeros((600, 6))
    wide[::2, ::2] = doubles
    backwards = np.ascontiguousarray(doubles[::-1, ::-1])[::-1, ::-1]
    for same in (np.asfortranarray(doubles), wide[::2, ::2], backwards, doubles.astype(">f8"), doubles.tolist()):
        assert bits(fitted(same)) == wanted
    read_only = doubles.copy()
    read_only.flags.writeable = False
    assert bits(fitted(read_only)) == wanted
    shifted = np.frombuffer(b"x" + doubles.tobytes(), np.float64, 900, offset=1).reshape(300, 3)
    assert not shifted.flags.aligned and bits(fitted(shifted)) == wanted


def test_types_that_are_converted(doubles):
    for dtype in (np.int8, np.int32, np.int64, np.uint16, np.float16, bool):
        whole = doubles.astype(np.int8).astype(dtype)
        assert bits(fitted(whole)) == bits(fitted(whole.astype(np.float64)))
    assert bits(fitted(doubles.astype(object))) == bits(fitted(doubles))


def test_one_column_and_repeated_memory(doubles):
    column = doubles[:, :1]
    assert bits(fitted(column)) == bits(fitted(column.copy()))
    same = np.broadcast_to(np.array([[1.0, 2.0]]), (50, 2))
    assert kmgen.KMeans(1).fit(same).inertia_ == 0


def test_dtype_decides_kernels(doubles):
    assert fitted(doubles, dtype="float64").inertia_ != fitted(doubles, dtype=np.float32).inertia_


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (np.zeros(3), "Expected 2D array, got 1D"),
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.zeros((3, 2), complex), "Complex data not supported"),
        (np.array([["a", "b"], ["c", "d"]]), "does not hold numbers"),
        (np.array([[10**400, 1], [2, 3]], dtype=object), "does not hold numbers"),
        (np.array([[1, 2], [3, 4]], dtype="M8[s]"), "holds dates or times"),
        (np.ma.array([[1, 2], [3, 4]], mask=[[0, 0], [1, 0]]), r"row 2, column 1: the value is missing"),
        (np.zeros(3, dtype=[("a", "f4"), ("b", "f4")]), "structured array"),
        ("table.csv", "read the file first"),
        (np.array([[1, 2], [np.nan, 3]]), r"row 2, column 1: the value is missing \(NaN\); leave such rows out"),
        (np.array([[1, np.inf], [2, 3]]), "row 1, column 2: the value is infinite"),
    ],
)
def test_what_is_refused(points, said):
    with pytest.raises(ValueError, match=said):
        kmgen.KMeans(2).fit(points)


def test_features_must_be_those_of_the_fit(doubles):
    sweep = fitted(doubles)
    for act in (sweep.predict, sweep.transform, sweep.score):
        with pytest.raises(ValueError, match="2 features, but KMeansSweep is expecting 3"):
            act(doubles[:, :2])
    bad = doubles.copy()
    bad[7, 1] = np.nan
    for act in (sweep.predict, sweep.transform, sweep.score):
        with pytest.raises(ValueError, match="row 8, column 2"):
            act(bad)


def test_pandas(doubles):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(doubles, columns=["x", "y", "z"])
    sweep = fitted(table)
    assert bits(sweep) == bits(fitted(doubles))
    assert sweep.feature_names_in_.tolist() == ["x", "y", "z"]
    assert (sweep.predict(table) == sweep.labels_).all()
    mixed = table.assign(y=table.y.round().astype(int), w=table.x > 3)
    assert bits(fitted(mixed)) == bits(fitted(mixed.to_numpy(dtype=float)))
    nullable = mixed.assign(y=mixed.y.astype("Int64"))
    assert bits(fitted(nullable)) == bits(fitted(mixed))
    nullable.loc[3, "y"] = pandas.NA
    with pytest.raises(ValueError, match=r"row 4, column 2 \(y\): the value is missing"):
        fitted(nullable)
    with pytest.raises(ValueError, match="column city does not hold numbers"):
        fitted(table.assign(city=["Rome"] * 300))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        sweep.predict(table[["z", "y", "x"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        sweep.predict(doubles)


def test_polars(doubles):
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(doubles, schema=["x", "y", "z"])
    sweep = fitted(table)
    assert bits(sweep) == bits(fitted(doubles)) and sweep.feature_names_in_.tolist() == ["x", "y", "z"]
    assert (sweep.predict(table) == sweep.labels_).all()
    whole = table.with_columns(polars.col("y").round().cast(polars.Int32))
    assert bits(fitted(whole)) == bits(fitted(whole.to_numpy()))
    holes = whole.with_columns(polars.when(polars.arange(0, 300) == 5).then(None).otherwise(polars.col("y")).alias("y"))
    with pytest.raises(ValueError, match=r"row 6, column 2 \(y\): the value is missing"):
        fitted(holes)


def test_pyarrow(doubles):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({name: doubles[:, f] for f, name in enumerate("xyz")})
    assert bits(fitted(table)) == bits(fitted(doubles))
    pieces = arrow.concat_tables([table.slice(0, 100), table.slice(100)])
    sweep = fitted(pieces)
    assert bits(sweep) == bits(fitted(doubles)) and sweep.feature_names_in_.tolist() == ["x", "y", "z"]


def test_sparse():
    sparse = pytest.importorskip("scipy.sparse")
    draw = np.random.default_rng(1)
    dense = np.where(draw.random((400, 30)) < 0.1, draw.normal(size=(400, 30)), 0)
    dense[:200, 3] += 8
    matrix = sparse.csr_matrix(dense)
    sweep = kmgen.KMeansSweep("2..3", device="cpu").fit(matrix)
    assert (sweep.predict(matrix) == sweep.labels_).all()
    assert np.allclose(sweep.transform(matrix), sweep.transform(dense))
    assert sweep.score(matrix) == pytest.approx(-sweep.inertia_, rel=1e-4)
    for other in (matrix.tocsc(), matrix.tocoo(), sparse.csr_array(dense)):
        assert bits(kmgen.KMeansSweep("2..3", device="cpu").fit(other)) == bits(sweep)
    double = sparse.coo_matrix(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)).tocsr()
    assert kmgen.KMeans(2, device="cpu").fit(double).inertia_ == 0


def test_sparse_that_is_broken():
    sparse = pytest.importorskip("scipy.sparse")
    for where, to, said in (("indptr", 10**6, "indptr"), ("indptr", -1, "indptr"), ("indices", 99, "column 99")):
        broken = sparse.random(50, 30, 0.2, format="csr", random_state=0)
        getattr(broken, where)[5] = to
        with pytest.raises(ValueError, match=said):
            kmgen.KMeans(2).fit(broken)


def test_other_tables(doubles):
    wanted = bits(fitted(doubles))
    pandas, arrow, polars = (pytest.importorskip(name) for name in ("pandas", "pyarrow", "polars"))
    table = arrow.table({name: doubles[:, f] for f, name in enumerate("xyz")})
    assert bits(fitted(table.to_batches()[0])) == wanted
    assert bits(fitted(arrow.Tensor.from_numpy(doubles))) == wanted
    with pytest.raises(ValueError, match="collect"):
        fitted(polars.DataFrame(doubles).lazy())
    months = pandas.DataFrame(doubles, columns=list("xyz")).assign(month=pandas.Period("2020-01", "M"))
    with pytest.raises(TypeError, match="column month does not hold numbers"):
        fitted(months)
    for wrong in (pandas.Timestamp("2020-01-01"), pandas.Timestamp("2020-01-01", tz="UTC")):
        with pytest.raises(ValueError, match="column day holds dates or times"):
            fitted(pandas.DataFrame(doubles, columns=list("xyz")).assign(day=wrong))


def test_columns_are_not_copied():
    """Arrow's columns are read where they lie."""
    arrow = pytest.importorskip("pyarrow")
    from kmgen import _arrays

    table = arrow.table({"x": np.arange(50.0), "y": np.arange(50.0)})
    floats, _ = _arrays.take(table, "test")._keep
    for name, column in zip("xy", floats):
        assert column.ctypes.data == table[name].chunk(0).buffers()[1].address


def test_values_that_are_no_numbers_are_not_taken_for_some():
    masked = np.ma.masked_array(blobs()[0], mask=np.arange(900).reshape(300, 3) == 7)
    with pytest.raises(ValueError, match=r"row 3, column 2: the value is missing"):
        kmgen.KMeans(2).fit(masked)
    assert kmgen.KMeans(2).fit(np.ma.masked_array(blobs()[0])).labels_.shape == (300,)
    dates = np.array([["2024-01-01", "NaT"], ["2024-01-02", "2024-01-03"]], "M8[s]")
    for times in (dates, dates - dates[0, 0]):
        with pytest.raises(ValueError, match="the array holds dates or times"):
            kmgen.KMeans(2).fit(times)
    with pytest.raises(ValueError, match="structured array"):
        kmgen.KMeans(2).fit(np.zeros(5, [("a", "f4"), ("b", "f4")]))


def test_dates_of_tables():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    when = np.array(["2024-01-01", "2024-02-01", "2024-03-01"], "M8[ns]")
    for table in (pandas.DataFrame, polars.DataFrame):
        with pytest.raises(ValueError, match="column when holds dates or times"):
            kmgen.KMeans(2).fit(table({"a": [1.0, 2.0, 3.0], "when": when}))
    with pytest.raises(ValueError, match=r"LazyFrame of polars instead; collect\(\)"):
        kmgen.KMeans(2).fit(polars.DataFrame({"a": [1.0, 2.0, 3.0]}).lazy())


def test_record_batch():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({name: blobs()[0][:, f] for f, name in enumerate("abc")})
    fitted = kmgen.KMeans(3).fit(table.to_batches()[0])
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (fitted.labels_ == kmgen.KMeans(3).fit(table).labels_).all()
