#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""K-means to convergence on a GPU by each algorithm, from the same first centroids: the tables of docs/algorithms.md.

    bench/skipping.py --worker build/bench/fit_worker [--algorithms lloyd,hamerly,auto] [--flash FOLDER] SHAPE...
    bench/skipping.py --by-update FILE.json ... SHAPE...      milliseconds of each update instead, to a file
    bench/skipping.py --picture FILE.svg FILE.json            and a picture of them; takes matplotlib
    SHAPE: POINTSxFEATURES,K,CLUSTERS
    CLUSTERS: normal ones of deviation 2 in a box of 20 each way; 0: uniform points

First centroids are points; a fit ends by a tolerance of 1e-4 or after 100 updates. Prints a row for each shape: the
sweep in milliseconds (the least of --turns), updates, the part of lloyd's distances, and the inertia less the first
algorithm's, relative. --flash is the folder of the package flash-kmeans, whose passes (TF32, its default) are timed for
as many updates. Programs are started together, so that their compilers run side by side, and timed one by one.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time


def parse(text):
    size, k, clusters = text.split(",")
    n, d = size.split("x")
    return dict(n=int(n), d=int(d), k=int(k), clusters=int(clusters))


def points(torch, shape):
    torch.manual_seed(shape["d"] + shape["clusters"])
    n, d, clusters = shape["n"], shape["d"], shape["clusters"]
    if not clusters:
        return torch.empty(n, d, device="cuda").uniform_(-1, 1)
    centres = torch.empty(clusters, d, device="cuda").uniform_(-20, 20)
    x = centres[torch.randint(clusters, (n,), device="cuda")]
    return x.add_(torch.randn(n, d, device="cuda"), alpha=2)


def firsts(torch, shape, x):
    torch.manual_seed(shape["k"])
    return x[torch.randperm(shape["n"], device="cuda")[:shape["k"]]].clone()


def start(options, shape, data, init, algorithm, folder):
    command = [options.worker, data, str(shape["k"]), "target=cuda", f"init={init}", "iterations=100",
               "restarts=1", "labels=none", "tol=0" if options.by_update else "tol=1e-4",
               f"cache={folder}"]
    if algorithm != "auto":
        command.append(f"algorithm={algorithm}")
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_ready(worker):
    for line in worker.stdout:
        if line.startswith("ready"):
            return True
    return False


def fit(worker, turns, option=""):
    best = None
    for _turn in range(turns):
        worker.stdin.write(option + "\n")
        worker.stdin.flush()
        found = json.loads(worker.stdout.readline())
        if best is None or found["sweep_ms"] < best["sweep_ms"]:
            best = found
    return best


COLOURS = dict(lloyd="#555555", tiles="#2a7f62", hamerly="#1f4e9c", elkan="#c2571a", auto="#8a2f6b")
UPDATES = [1, 2, 3, 4, 6, 10, 17, 28, 46, 78, 100]


def by_update(worker, turns):
    """Mean milliseconds of an update between two numbers of updates, and the part of lloyd's distances there."""
    rows, before = [], dict(sweep_ms=0.0, distances=0, passes=0, iterations=0)
    for updates in UPDATES:
        found = fit(worker, turns, f"iterations={updates}")
        done = found["passes"] - before["passes"]
        if found["iterations"] < updates or done < 1:
            break
        rows.append(dict(updates=updates, ms=(found["sweep_ms"] - before["sweep_ms"]) / done,
                         distances=(found["distances"] - before["distances"]) / done))
        before = found
    return rows


def joined(rows, least_ms=1.0):
    """Intervals that take too little to tell fits apart are one with the next."""
    steps, before, ms = [], rows[0]["updates"], 0.0
    for last, row in zip(rows, rows[1:]):
        ms += row["ms"] * (row["updates"] - last["updates"])
        if ms >= least_ms:
            steps.append((before, row["updates"], ms / (row["updates"] - before)))
            before, ms = row["updates"], 0.0
    return steps


def picture(path, file):
    from matplotlib import pyplot, ticker

    class Plain(ticker.LogFormatter):
        """0.3 rather than 3 x 10^-1."""

        def _num_to_string(self, x, *_range):
            return f"{x:g}"

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kmgen"})
    with open(file, encoding="utf-8") as stream:
        shapes = json.load(stream)
    figure, all_axes = pyplot.subplots(1, len(shapes), figsize=(5 * len(shapes), 3.6), squeeze=False)
    for axes, shape in zip(all_axes[0], shapes):
        for algorithm, rows in shape["algorithms"].items():
            steps = joined(rows)
            axes.step([steps[0][0]] + [end for _begin, end, _ms in steps], [steps[0][2]] + [ms for *_, ms in steps],
                      where="pre", color=COLOURS[algorithm], label=algorithm)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(Plain())
            axis.set_minor_formatter(Plain())
        axes.set_xlabel("update")
        axes.set_title(f"{shape['n']:,} x {shape['d']}, K = {shape['k']:,}", fontsize=10)
        axes.grid(True, which="major", linewidth=0.4)
    all_axes[0][0].set_ylabel("ms")
    all_axes[0][-1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def inertia(torch, x, c):
    total = torch.zeros((), device="cuda", dtype=torch.float64)
    for part in x.split(1 << 16):
        part = part.double()
        nearest = torch.addmm((c * c).sum(1) * -0.5, part, c.T).argmax(1)
        total += ((part - c[nearest]) ** 2).sum()
    return float(total)


def flash(torch, options, x, c, updates):
    """Milliseconds of so many updates, and the centroids."""
    from flash_kmeans import batch_kmeans_Euclid

    k, times = len(c), []
    batch_kmeans_Euclid(x[None], k, max_iters=2, tol=0.0, init_centroids=c[None])
    for _turn in range(options.turns):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        _ids, found, _count = batch_kmeans_Euclid(x[None], k, max_iters=updates, tol=0.0, init_centroids=c[None])
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times), found[0]


def run(torch, options, folder):
    import numpy

    jobs, files = [], {}
    for shape in map(parse, options.shapes):
        x = points(torch, shape)
        key = (shape["n"], shape["d"], shape["clusters"])
        if key not in files:
            files[key] = os.path.join(folder, f"{len(files)}.npy")
            numpy.save(files[key], x.cpu().numpy())
        init = os.path.join(folder, f"init{len(jobs)}.npy")
        numpy.save(init, firsts(torch, shape, x).cpu().numpy())
        jobs.append((shape, [(a, start(options, shape, files[key], init, a, folder)) for a in options.algorithms]))
        del x
    for _shape, workers in jobs:
        for algorithm, worker in workers:
            if not wait_ready(worker):
                sys.exit(f"{_shape}: {algorithm} did not start")
    if options.by_update:
        found = []
        for shape, workers in jobs:
            found.append(dict(shape, algorithms={a: by_update(worker, options.turns) for a, worker in workers}))
            for _algorithm, worker in workers:
                worker.stdin.close()
                worker.wait()
        with open(options.by_update, "w", encoding="utf-8") as stream:
            json.dump(found, stream, indent=1)
        return
    head = ["n x d, K", "clusters", "updates"] + [f"`{a}`" for a in options.algorithms]
    print("| " + " | ".join(head + (["flash-kmeans", "inertia"] if options.flash else [])) + " |")
    for shape, workers in jobs:
        row, first = [f"{shape['n']} x {shape['d']}, {shape['k']}", str(shape["clusters"] or "uniform")], None
        for algorithm, worker in workers:
            found = fit(worker, options.turns)
            worker.stdin.close()
            worker.wait()
            if first is None:
                first = found
                row.append(str(found["iterations"]))
            share = found["distances"] / (shape["n"] * shape["k"] * found["passes"])
            row.append(f"{found['sweep_ms']:.1f} ({found['algorithm']} {100 * share:.2f} %, "
                       f"{found['inertia'] / first['inertia'] - 1:.1e})")
        if options.flash:
            x = points(torch, shape)
            ms, c = flash(torch, options, x, firsts(torch, shape, x), first["iterations"])
            row += [f"{ms:.1f}", f"{inertia(torch, x, c.double()) / first['inertia'] - 1:.1e}"]
            del x
        print("| " + " | ".join(row) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="+", metavar="SHAPE")
    parser.add_argument("--worker", default="build/bench/fit_worker")
    parser.add_argument("--algorithms", default="lloyd,hamerly,auto", type=lambda text: text.split(","))
    parser.add_argument("--flash", metavar="FOLDER", help="where the package flash_kmeans is")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--by-update", metavar="FILE")
    parser.add_argument("--picture", metavar="FILE")
    options = parser.parse_args()
    if options.picture:
        picture(options.picture, options.shapes[0])
        return
    if options.flash:
        sys.path.insert(0, options.flash)
    import torch

    with tempfile.TemporaryDirectory() as folder:
        run(torch, options, folder)


main()
