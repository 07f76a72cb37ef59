#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kmgen explore beside what people would write: fits of one subset of the columns after another.

    bench/explore.py [--build build] [--venv DIR] [--points 500000] [--looped 20] [--slow 5] [--threads 2] [--json FILE]
    bench/explore.py --cuda [--build build] [--points 5000000] [--json FILE]     on a GPU, without peers
    bench/explore.py --make TABLE.npy|TABLE.csv [--points N]     only writes the table; the class is its last column

The table is drawn from a seed: two classes, 8 low-level columns (b1 .. b8) and 10 that are functions of them (m1 ..
m10). Class 1 is a resonance: pairs of low-level columns are the legs of a triangle whose long side has a narrow
distribution, so that two derived columns (m2 and m8) carry most of what tells the classes apart, and no low-level
column does.

All subsets of three columns, K = 8, five iterations, one start. The peers loop over --looped subsets of them
(scikit-learn over --slow), and their time is scaled to all; both wall time and the processor's own stand in the
table, as other programs on the machine disturb the latter less. scikit-learn's random forest, on all columns and on
the best code, stands beside the ranking. bench/tables.py makes the tables of docs/explore.md from --json
bench/results/explore.json, and with --cuda bench/results/explore_cuda.json.

With --cuda each job runs twice, as kernels are compiled in the first; times are those of the second, as -v tells them.
"""
import argparse
import itertools
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

import tables
from tables import commit, write_json

K, ITERATIONS, SIZE = 8, 5, 3


def table(n, seed=1):
    import numpy as np

    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.53
    b = rng.exponential(1.0, (n, 8))
    for first, mass, width in ((1, 1.7, 0.25), (5, 1.3, 0.25)):
        angle = rng.uniform(0.15, np.pi / 2 - 0.15, n)
        long_side = rng.normal(mass, width, n)
        b[y, first] = (long_side * np.cos(angle))[y]
        b[y, first + 1] = (long_side * np.sin(angle))[y]
    b += rng.normal(0, 0.02, b.shape)
    m = np.empty((n, 10))
    pairs = [(0, 3), (1, 2), (0, 4), (3, 4), (2, 7), (1, 7), (0, 7), (5, 6), (4, 6), (2, 5)]
    for j, (p, q) in enumerate(pairs):
        m[:, j] = np.hypot(b[:, p], b[:, q])
    return np.hstack([b, m]).astype(np.float32), y.astype(np.float32)


NAMES = [f"b{i}" for i in range(1, 9)] + [f"m{i}" for i in range(1, 11)]


def make(path, n):
    import numpy as np

    x, y = table(n)
    both = np.hstack([x, y[:, None]])
    if path.endswith(".npy"):
        np.save(path, both)
    else:
        np.savetxt(path, both, fmt="%.5g", delimiter=",", header=",".join(NAMES + ["class"]), comments="")


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_kmgen(args, path, init, out, codes):
    """Milliseconds after the table was read, by kmgen's own clock, the processor's own, and the result."""
    before = children_s()
    subprocess.run([f"{args.build}/cli/kmgen", "explore", path, "--columns", "1..18", "--choose", str(SIZE), "-k",
                    str(K), "--n-init", "1", "--max-iter", str(ITERATIONS), "--tol", "0", "--init", init, "--threads",
                    str(args.threads), "--target", "cpu", "--outcome", "19", "--holdout", "0.3", "--json", out,
                    "--codes", codes, "-q"], check=True, stdout=subprocess.DEVNULL)
    own = 1e3 * (children_s() - before)
    with open(out, encoding="utf-8") as file:
        result = json.load(file)
    return result["run_ms"], own, result


def run_fits(args, path, init, subsets):
    words = [",".join(map(str, s)) for s in subsets]
    done = subprocess.run([f"{args.build}/bench/explore_fits", path, str(K), str(ITERATIONS), init, str(args.threads),
                           words[0], *words], check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


PEER = """
import sys, time
import numpy as np
path, subsets, init, k, iterations, patched = sys.argv[1:]
subsets, k, iterations = eval(subsets), int(k), int(iterations)
if patched == "1":
    from sklearnex import patch_sklearn
    patch_sklearn(verbose=False)
from sklearn.cluster import KMeans
x = np.load(path)[:, :18]
x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
for turn, some in enumerate((subsets[:1], subsets)):
    wall, own = time.perf_counter(), time.process_time()
    for columns in some:
        means = KMeans(k, init=init, n_init=1, max_iter=iterations, tol=0, random_state=0)
        means.fit(np.ascontiguousarray(x[:, columns]))
print(1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - own))
"""


def run_peer(args, path, init, subsets, patched):
    python = f"{args.venv}/bin/python" if args.venv else sys.executable
    done = subprocess.run([python, "-W", "ignore", "-c", PEER, path, repr([list(s) for s in subsets]), init, str(K),
                           str(ITERATIONS), str(int(patched))], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(args.threads)})
    if done.returncode:
        return None
    return [float(word) for word in done.stdout.split()]


FOREST = """
import sys
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
data, codes = np.load(sys.argv[1])[:100_000], np.load(sys.argv[2])[:100_000]
x, y = data[:, :18], data[:, 18]
one_hot = [np.eye(8, dtype=np.int8)[codes[:, j]] for j in range(3)]
for features in (x, one_hot[0], np.hstack(one_hot)):
    a, b, ya, yb = train_test_split(features, y, test_size=.3, random_state=0)
    forest = RandomForestClassifier(50, min_samples_leaf=20, n_jobs=2, random_state=0).fit(a, ya)
    print((forest.predict(b) == yb).mean(), *(forest.feature_importances_ if features is x else []))
"""


def forest(args, path, codes):
    python = f"{args.venv}/bin/python" if args.venv else sys.executable
    done = subprocess.run([python, "-W", "ignore", "-c", FOREST, path, codes], capture_output=True, text=True)
    if done.returncode:
        return None
    rows = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    return dict(all_columns=rows[0][0], best_code=rows[1][0], three_best_codes=rows[2][0],
                importances=dict(zip(NAMES, rows[0][1:])))


def row(name, init, subsets, all_subsets, times):
    wall, own = (all_subsets / subsets * t for t in times)
    return dict(name=name, init=init, subsets=subsets, wall_ms=wall, cpu_ms=own)


def time_all(args, path, folder):
    every = list(itertools.combinations(range(18), SIZE))
    some = every[::len(every) // args.looped][:args.looped]
    few = some[::max(len(some) // args.slow, 1)][:args.slow]
    rows, result = [], None
    for init in ("random", "k-means++"):
        wall, own, result = run_kmgen(args, path, init, f"{folder}/result.json", f"{folder}/codes.npy")
        rows.append(row("kmgen explore", init, len(every), len(every), (wall, own)))
        rows.append(row("kmgen fit, looped", init, len(some), len(every), run_fits(args, path, init, some)))
        for name, patched, subsets in (("scikit-learn-intelex", True, some), ("scikit-learn", False, few)):
            peer = run_peer(args, path, init, subsets, patched)
            if peer:
                rows.append(row(name, init, len(subsets), len(every), peer))
    return rows, result


def report(args, rows, result, trees):
    often = sorted(result["columns"], key=lambda c: -c["among_best"])
    best = [dict(columns=[NAMES[c - 1] for c in s["columns"]], **s["figures"]) for s in result["subsets"][:5]]
    together = [dict(subsets=[[NAMES[c - 1] for c in one] for one in c["subsets"]], **c["figures"])
                for c in result.get("combined", [])[:3]]
    return dict(date=time.strftime("%Y-%m-%d"), commit=commit(), points=args.points, threads=args.threads, rows=rows,
                count=result["count"], baseline=result["baseline"]["accuracy"], best=best, combined=together,
                often=[dict(column=NAMES[c["column"] - 1], among_best=c["among_best"]) for c in often[:6]],
                forest=trees, table_bytes=result["table_bytes"], subset_bytes=result["subset_bytes"])


# On a GPU -------------------------------------------------------------------------------------------------------------

CUDA_STARTS = ["--init", "random", "--n-init", "1", "--max-iter", str(ITERATIONS), "--tol", "0"]
CUDA_DRAWN = ["--subsets", "10000", "--with-replacement", *CUDA_STARTS]
CUDA_JOBS = [("10,000 drawn subsets", CUDA_DRAWN),
             ("10,000 drawn subsets, classes", [*CUDA_DRAWN, "--outcome", "19", "--holdout", "0.3"]),
             ("all 816, 10 restarts to convergence", ["--n-init", "10"]),
             ("all 816, ranked against 3 permuted tables", ["--rank", "permuted", *CUDA_STARTS])]
LOGGED = re.compile(r"explore: (\d+) runs of \d+ columns, K = (\d+): (\d+) passes in ([\d.]+) ms, (\S+) distances; "
                    r"the last one in ([\d.]+) ms")


def cuda_job(args, path, title, options):
    words = [f"{args.build}/cli/kmgen", "explore", path, "--columns", "1..18", "--choose", str(SIZE), "-k", str(K),
             "--combine", "0", "-t", "cuda", "-v", *options]
    for _ in range(2):
        begin = time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True)
        wall = 1e3 * (time.perf_counter() - begin)
        if done.returncode:
            sys.exit(done.stderr)
    blocks = [[float(word) for word in found.groups()] for found in LOGGED.finditer(done.stderr)]
    runs, distances, passes_ms, last_ms = (sum(block[i] for block in blocks) for i in (0, 4, 3, 5))
    # What a pass over one start of each subset takes, were all of them in work.
    restarts = int(options[options.index("--n-init") + 1])
    plain_ms = passes_ms * args.points * runs * K / distances / restarts
    return dict(title=title, runs=int(runs), distances=distances, passes_ms=passes_ms, last_ms=last_ms,
                last_passes=last_ms / plain_ms, wall_ms=wall)


def cuda(args):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/table.npy"
        make(path, args.points)
        rows = [cuda_job(args, path, *job) for job in CUDA_JOBS]
    name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    found = dict(date=time.strftime("%Y-%m-%d"), commit=commit(), points=args.points,
                 device=name.stdout.split("\n")[0], rows=rows)
    print(tables.explore_cuda({"explore_cuda": found}))
    if args.json:
        write_json(args.json, found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--venv", default="")
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--looped", type=int, default=20)
    parser.add_argument("--slow", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--make", default="")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    args.points = args.points or (5_000_000 if args.cuda else 500_000)
    if args.cuda:
        cuda(args)
        return
    if args.make:
        make(args.make, args.points)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/table.npy"
        make(path, args.points)
        rows, result = time_all(args, path, folder)
        trees = forest(args, path, f"{folder}/codes.npy")
    found = report(args, rows, result, trees)
    print(tables.explore_times({"explore": found}), tables.explore_ranking({"explore": found}), sep="\n")
    if args.json:
        write_json(args.json, found)


if __name__ == "__main__":
    main()
