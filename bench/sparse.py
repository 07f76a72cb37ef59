#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits of sparse tables: kmgen's CSR and dense layouts beside scikit-learn and scikit-learn-intelex on the same CSR.

    bench/sparse.py [--rows d100-5,text-k2_12,...] [--quick] [--rounds 3] [--json FILE] [--build build] [--venv DIR]
    bench/sparse.py --crossing [--rows d20-2..12,d500-50,...] [--json FILE]
                                                 from which share of nonzeros on the layout dense is faster, and
                                                 what the planner takes it to be
    bench/sparse.py [--crossing] --docs          writes bench/results/sparse.json (sparse_crossing.json), and the
                                                 tables of docs/sparse.md from it; so does bench/tables.py.
                                                 Rows of this commit that --rows leaves out stay there

Every contestant gets float32 values with int32 columns, k-means++ by itself, one restart, ten iterations and no
tolerance, and pays for the labels of every K; peers fit each K in turn. Each runs in a process of its own, warmed by
one whole fit. Medians of wall time are compared, and the processor's own time stands beside them, which other programs
on the machine disturb less. Peers that this Python lacks are left out (--venv DIR: that environment's Python). The sums
of the inertia of all K are shown beside each other: they differ as the draws of k-means++ do, and a fit that is more
than 5% worse than the best is an error.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import tables
from cpu_peers import Contestant, cpu_name, cpu_vectors, versions

POINTS, TEXT_POINTS, CROSSING_VALUES, QUICK = 1_000_000, 200_000, 10_000_000, 20
WORSE_MAX = 1.05


def row(title, kind, d, share, clusters, dense=True):
    return dict(title=title, kind=kind, d=d, share=share, clusters=clusters, dense=dense)


def rows_table():
    table = {}
    for percent in (5, 10, 20):
        table[f"d100-{percent}"] = row(f"1,000,000 x 100, {percent}% nonzeros, K = 2..12", "blobs", 100, percent / 100,
                                       [2, 12])
    table["text-k2_12"] = row("200,000 x 100,000, 80 nonzeros a row, K = 2..12", "text", 100_000, 80, [2, 12], False)
    table["text-k100"] = row("200,000 x 100,000, 80 nonzeros a row, K = 100", "text", 100_000, 80, [100, 100], False)
    return table


ROWS = rows_table()
CROSSINGS = {f"d{d}-{clusters}": (d, clusters) for d in (20, 100, 500) for clusters in ("2..12", "50")}


def matrix(kind, n, d, share, seed=1, groups=12):
    """blobs: each group prefers some columns. even: any value is there with the same chance. text: columns by Zipf's
    law in an order of their own, and each group shifts some of them."""
    import numpy as np
    import scipy.sparse

    rng = np.random.default_rng(seed)
    own = rng.integers(0, groups, n)
    counts = rng.binomial(d, share, n) if kind == "blobs" else np.full(n, int(share) if kind == "text" else 0)
    rows = np.repeat(np.arange(n), counts)
    many = rows.size
    if kind == "blobs":
        preferred = rng.integers(0, max(1, d // groups), many) * groups + own[rows]
        columns = np.where(rng.random(many) < 0.5, preferred % d, rng.integers(0, d, many))
        values = 1 + 0.3 * rng.standard_normal(many)
    elif kind == "even":
        chosen = np.flatnonzero(rng.random(n * d) < share)
        rows, columns = chosen // d, chosen % d
        values = 1 + 0.3 * rng.standard_normal(chosen.size)
    else:
        ranks = np.exp(rng.random(many) * np.log(d)).astype(np.int64) - 1
        shifts = np.where(rng.random(many) < 0.3, own[rows] * 37, 0)
        columns = rng.permutation(d)[(ranks + shifts) % d]
        values = 1 + rng.random(many)
    found = scipy.sparse.csr_matrix((values.astype(np.float32), (rows, columns.astype(np.int32))), shape=(n, d))
    found.sum_duplicates()
    found.sort_indices()
    return found


def matrix_write(path, found):
    """As bench/fit_worker.c reads it."""
    import numpy as np

    with open(path, "wb") as out:
        np.array([*found.shape, found.nnz], dtype=np.int64).tofile(out)
        found.indptr.astype(np.int64).tofile(out)
        found.indices.astype(np.int32).tofile(out)
        found.data.astype(np.float32).tofile(out)


def matrix_read(path):
    import numpy as np
    import scipy.sparse

    with open(path, "rb") as file:
        n, d, many = np.fromfile(file, np.int64, 3)
        starts, columns = np.fromfile(file, np.int64, n + 1), np.fromfile(file, np.int32, many)
        values = np.fromfile(file, np.float32, many)
    return scipy.sparse.csr_matrix((values, columns, starts.astype(np.int32)), shape=(int(n), int(d)))


def peer_worker(name, path, first, last):
    """The protocol of bench/fit_worker.c."""
    import warnings

    warnings.filterwarnings("ignore")
    if name == "intelex":
        from sklearnex import patch_sklearn

        patch_sklearn(verbose=False)
    from sklearn.cluster import KMeans

    x = matrix_read(path)

    def fit():
        inertia = 0.0
        for k in range(first, last + 1):
            model = KMeans(n_clusters=k, n_init=1, max_iter=10, tol=0.0, algorithm="lloyd", random_state=0).fit(x)
            assert model.labels_.shape[0] == x.shape[0]
            inertia += float(model.inertia_)
        return inertia

    fit()
    print("ready", flush=True)
    for _line in sys.stdin:
        begin, used = time.perf_counter(), time.process_time()
        inertia = fit()
        print(json.dumps(dict(ms=(time.perf_counter() - begin) * 1e3, cpu_ms=(time.process_time() - used) * 1e3,
                              inertia=inertia)), flush=True)


def contestants_of(job, path, args):
    first, last = job["clusters"]
    own = [os.path.join(args.build, "bench", "fit_worker"), path, f"{first}..{last}", "iterations=10", "tol=0",
           "restarts=1", f"threads={args.threads}", f"cache={args.cache}"]
    found = [("kmgen", own), ("kmgen-refined", [*own, "refine=auto"])]
    if job["dense"]:
        found.append(("kmgen-dense", [*own, "layout=dense"]))
    for peer in args.peers:
        found.append((peer, [args.python, os.path.abspath(__file__), "--worker", peer, path, str(first), str(last)]))
    return found


def row_run(name, job, args, folder):
    n = (TEXT_POINTS if job["kind"] == "text" else POINTS) // (QUICK if args.quick else 1)
    path = os.path.join(folder, name + ".csr")
    matrix_write(path, matrix(job["kind"], n, job["d"], job["share"]))
    result = dict(row=name, title=job["title"], n=n, d=job["d"], clusters=job["clusters"], median_ms={}, cpu_ms={},
                  inertia={}, last={})
    contestants = [Contestant(title, command, args.threads) for title, command in contestants_of(job, path, args)]
    for contestant in contestants:
        contestant.ready()
    found = {contestant.name: [] for contestant in contestants}
    for _round in range(args.rounds):
        for contestant in contestants:
            found[contestant.name].append(contestant.run())
            time.sleep(0.3)
    for contestant in contestants:
        contestant.close()
        runs = found[contestant.name]
        result["median_ms"][contestant.name] = statistics.median(run["ms"] for run in runs)
        result["cpu_ms"][contestant.name] = statistics.median(run["cpu_ms"] for run in runs)
        result["inertia"][contestant.name] = runs[-1]["inertia"]
        result["last"][contestant.name] = runs[-1]
    os.remove(path)
    best = min(result["inertia"].values())
    result["worse"] = result["inertia"]["kmgen"] / best
    if result["worse"] > WORSE_MAX:
        raise SystemExit(f"{name}: kmgen's inertia is {result['worse']:.3f} times the best")
    return result


def row_print(result):
    print(f"\n{result['row']}: {result['title']}, n={result['n']:,}")
    for name, ms in result["median_ms"].items():
        last, steps = result["last"][name], ""
        if name.startswith("kmgen"):
            steps = ("  ({design}; read {read_ms:.0f}, seed {seed_ms:.0f}, sweep {sweep_ms:.0f}, finish "
                     "{finish_ms:.0f})").format(**last)
        times, used = ms / result["median_ms"]["kmgen"], result["cpu_ms"][name]
        print(f"  {name:<14} {ms:10.1f} ms  {used:10.1f} ms of the processor, inertia {result['inertia'][name]:.6g}, "
              f"{times:.1f} times kmgen's{steps}", flush=True)


# Where both layouts take the same time ----------------------------------------------------------------------------


def pass_of(args, path, clusters, layout):
    """Milliseconds of a pass, the least of some fits, and the design."""
    command = [os.path.join(args.build, "bench", "fit_worker"), path, clusters, "iterations=10", "tol=0", "restarts=1",
               f"threads={args.threads}", f"cache={args.cache}", f"layout={layout}", "algorithm=lloyd", "labels=none"]
    done = subprocess.run(command, input="go\n" * args.rounds, capture_output=True, text=True, check=True)
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return min(run["sweep_ms"] / run["passes"] for run in runs), runs[0]["design"]


def predicted_crossing(args, folder, n, d, clusters):
    """The share of nonzeros from which on the planner takes the layout dense; None: it always takes one."""
    spec = os.path.join(folder, "crossing.yaml")
    with open(spec, "w", encoding="utf-8") as out:
        out.write(f"features: {d}\nclusters: {clusters}\ntype: float32\ntarget: cpu\nn_init: 1\n")

    def takes_csr(share):
        command = [os.path.join(args.build, "cli", "kmgen"), "explain", spec, "--device", "--points", str(n),
                   "--density", str(share), "--quiet"]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return next(line for line in found.splitlines() if line.startswith("design ")).split()[1] == "sparse_lanes"

    low, high = 1 / d, 1.0
    if takes_csr(high) or not takes_csr(low):
        return None
    while high / low > 1.01:
        mid = (low * high) ** 0.5
        low, high = (mid, high) if takes_csr(mid) else (low, mid)
    return (low * high) ** 0.5


def crossing_of(points):
    """Where csr_ms is dense_ms, between the two shares around it, both in logarithms; None: nowhere."""
    for before, after in zip(points, points[1:]):
        low, high = (math.log(point["csr_ms"] / point["dense_ms"]) for point in (before, after))
        if low <= 0 < high:
            part = low / (low - high)
            return before["share"] ** (1 - part) * after["share"] ** part
    return None


def crossing_point(args, folder, d, n, clusters, share):
    path = os.path.join(folder, "crossing.csr")
    matrix_write(path, matrix("even", n, d, share))
    csr, _ = pass_of(args, path, clusters, "csr")
    dense, design = pass_of(args, path, clusters, "dense")
    os.remove(path)
    return dict(share=share, csr_ms=csr, dense_ms=dense, dense_design=design)


def crossing_row(args, folder, d, clusters):
    """Passes at what the planner predicts, then at shares step by step away from it until the other layout wins; and
    once between the last two."""
    n, lowest = CROSSING_VALUES // d // (5 if args.quick else 1), 1 / d
    predicted = predicted_crossing(args, folder, n, d, clusters)
    points = [crossing_point(args, folder, d, n, clusters, predicted or 0.3)]
    up = points[0]["csr_ms"] <= points[0]["dense_ms"]
    while crossing_of(points) is None and lowest < points[0]["share"] and points[-1]["share"] < 1:
        share = min(points[-1]["share"] * 1.5, 1) if up else max(points[0]["share"] / 1.5, lowest)
        points.insert(len(points) if up else 0, crossing_point(args, folder, d, n, clusters, share))
    found = crossing_of(points)
    if found:
        points.append(crossing_point(args, folder, d, n, clusters, found))
        points.sort(key=lambda point: point["share"])
    return dict(row=f"d{d}-{clusters}", d=d, n=n, clusters=clusters, measured=crossing_of(points), predicted=predicted,
                points=points)


def rows_kept(args, commit):
    """Rows of the docs' file that --rows leaves out; they have to be of the same commit, as the file names one."""
    if not args.docs or args.rows == "all" or not os.path.exists(args.json):
        return []
    with open(args.json, encoding="utf-8") as stream:
        old = json.load(stream)
    if old["commit"].removesuffix("-dirty") != commit.removesuffix("-dirty"):
        raise SystemExit(f"{args.json} is of {old['commit']}, this is {commit}: run all rows, or remove it first")
    return [row for row in old["rows"] if row["row"] not in args.rows.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="all", help="names separated by commas: " + ", ".join([*ROWS, *CROSSINGS]))
    parser.add_argument("--crossing", action="store_true", help="passes of both layouts instead")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the points")
    parser.add_argument("--rounds", type=int, default=3, help="fits of each contestant")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--docs", action="store_true", help="write the results that the docs show, and their tables")
    parser.add_argument("--venv", help="an environment with scikit-learn and scikit-learn-intelex")
    parser.add_argument("--build", default="build", help="kmgen's build folder")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    return parser.parse_args()


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        return peer_worker(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    args = arguments()
    python = os.path.join(args.venv, "bin", "python3") if args.venv else sys.executable
    if os.path.realpath(args.venv or sys.prefix) != os.path.realpath(sys.prefix):
        return subprocess.call([python, os.path.abspath(__file__), *sys.argv[1:]])
    args.python = python
    if args.docs:
        args.json = os.path.join(tables.RESULTS, "sparse_crossing.json" if args.crossing else "sparse.json")
    found = versions()
    args.peers = [peer for peer, package in (("sklearn", "scikit-learn"), ("intelex", "scikit-learn-intelex"))
                  if package in found]
    report = dict(date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                  commit=args.commit or tables.commit(), cpu=cpu_name(), vectors=cpu_vectors(), cores=os.cpu_count(),
                  threads=args.threads, rounds=args.rounds, versions=found, load_before=os.getloadavg(), rows=[])
    kept = rows_kept(args, report["commit"])
    with tempfile.TemporaryDirectory(prefix="kmgen-bench-") as folder:
        args.cache = os.path.join(folder, "cache")
        every = CROSSINGS if args.crossing else ROWS
        for name in list(every) if args.rows == "all" else args.rows.split(","):
            if args.crossing:
                report["rows"].append(crossing_row(args, folder, *every[name]))
                print(json.dumps(tables.rounded(report["rows"][-1])), flush=True)
            else:
                report["rows"].append(row_run(name, every[name], args, folder))
                row_print(report["rows"][-1])
            if args.json and not args.docs:
                tables.write_json(args.json, report)
    if args.docs:
        report["rows"] = sorted([*kept, *report["rows"]], key=lambda found: list(every).index(found["row"]))
    if args.json:
        tables.write_json(args.json, report)
    if args.docs:
        tables.write_docs()
    return 0


if __name__ == "__main__":
    sys.exit(main())
