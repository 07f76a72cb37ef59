#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The algorithms beside each other: the tables of docs/history/2026-11-22-algorithms.md.

    bench/algorithms.py --build build [--points 100000] [--repeats 5] [--clusters 2..12] [--features 2,4,8,16]

Runs `kmgen fit --json` with each algorithm on clustered and uniform float32 points, interleaved, and prints for each
shape the median time of loading and sweep (sorting counts) and the part of lloyd's distances that is left. Checks on
the way that inertia and iterations are lloyd's.
"""
import argparse
import array
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

ALGORITHMS = ["lloyd", "tiles", "hamerly", "elkan", "auto"]


def write_points(path, data, n, d, options):
    draw = random.Random(d)
    if data == "uniform":
        values = array.array("f", (draw.uniform(-1, 1) for _ in range(n * d)))
    else:
        centres = [[draw.uniform(-10, 10) for _ in range(d)] for _ in range(options.centres)]
        values = array.array("f", (draw.gauss(x, options.spread) for i in range(n)
                                   for x in centres[i % options.centres]))
    with open(path, "wb") as stream:
        values.tofile(stream)


def fit(options, path, d, algorithm, cache):
    command = [os.path.join(options.build, "cli", "kmgen"), "fit", path, "--features", str(d), "--quiet",
               "--clusters", options.clusters, "--n-init", str(options.restarts), "--max-iter", str(options.max_iter),
               "--tol", "0", "--refine", "none",
               "--threads", str(options.threads), "--target", "cpu", "--set", "design=" + options.design,
               "--algorithm", algorithm, "--cache-dir", cache, "--json", "-"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def check(result, lloyd):
    for model, other in zip(result["models"], lloyd["models"]):
        if abs(model["inertia"] - other["inertia"]) > 1e-4 * other["inertia"]:
            sys.exit(f"K={model['k']}: inertia {model['inertia']}, lloyd's {other['inertia']}")


def shape(options, data, d, folder):
    path = os.path.join(folder, "points.f32")
    write_points(path, data, options.points, d, options)
    times, left, used = {a: [] for a in options.algorithms}, {}, {}
    for _ in range(options.repeats):
        results = {a: fit(options, path, d, a, folder) for a in options.algorithms}
        for name, result in results.items():
            check(result, results["lloyd"])
            times[name].append(result["timing_ms"]["read"] + result["timing_ms"]["sweep"])
            left[name] = result["counters"]["distances"] / result["counters"]["distances_lloyd"]
            used[name] = result["counters"]["algorithm"]
    cells = [f"{statistics.median(times[a]):.0f} ({left[a]:.2f})" for a in options.algorithms]
    print(f"| {data} | {d} | " + " | ".join(cells) + f" {used.get('auto', '')} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--points", type=int, default=100000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clusters", default="2..12")
    parser.add_argument("--features", default="2,4,8,16")
    parser.add_argument("--max-iter", type=int, default=10)
    parser.add_argument("--centres", type=int, default=12, help="of clustered points, in a box of 20 each way")
    parser.add_argument("--spread", type=float, default=1, help="standard deviation around a centre")
    parser.add_argument("--data", default="clustered,uniform")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--design", default="lanes")
    options = parser.parse_args()
    options.algorithms = options.algorithms.split(",")
    if "lloyd" not in options.algorithms:
        parser.error("--algorithms needs lloyd, which the others are held against")
    print(f"{options.points} float32 points, K = {options.clusters}, {options.restarts} restart(s), up to "
          f"{options.max_iter} iterations, "
          f"{options.threads} thread(s), {options.design}: ms, and the part of lloyd's distances")
    print("| data | d | " + " | ".join(options.algorithms) + " |")
    print("|---|---|" + "---|" * len(options.algorithms))
    with tempfile.TemporaryDirectory() as folder:
        for data in options.data.split(","):
            for d in options.features.split(","):
                shape(options, data, int(d), folder)


main()
