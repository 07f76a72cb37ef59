#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks that share the points: times by phase of 1 and 2 ranks with 1 and 2 threads, and a model of more of them.

Strong scaling: the same points. Weak scaling: half of them on one rank. Each is the best of --runs fits, from the JSON
of rank 0. The model has a phase's time per point and core, and what does not depend on the points (samples, which every
rank looks at), from the two fits of one rank and one thread; a sum over R ranks takes 2 log2(R) latencies and sends its
bytes twice. It knows nothing of more threads than cores. Usage:

    bench/ranks.py [--points N] [--features D] [--runs N] [--latency-us L] [--gigabytes-s B] [--plot FILE.svg] KMGEN_MPI
"""

import argparse
import array
import json
import math
import os
import random
import subprocess
import tempfile

CLUSTERS = (3, 12)
PASSES = 10
PHASES = ("read", "seed", "sweep", "finish")
CHUNK = 65536


def write_points(path, points, features):
    """Blobs as raw floats; a block of them is written again and again, which times do not depend on."""
    draw = random.Random(features)
    centres = [[draw.uniform(-8, 8) for _ in range(features)] for _ in range(9)]
    block = array.array("f")
    for _ in range(CHUNK):
        block.extend(c + draw.gauss(0, 1) for c in draw.choice(centres))
    with open(path, "wb") as file:
        for _ in range(points // CHUNK):
            file.write(block.tobytes())


def fit(args, folder, path, ranks, threads):
    """Milliseconds of each phase, of the fit that took least."""
    found = []
    out = os.path.join(folder, "result.json")
    launch = ["mpirun"]
    if "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True).stdout:
        launch += ["--oversubscribe", "--bind-to", "none"]
    command = [*launch, "-n", str(ranks), args.program, "fit", path, "--features", str(args.features)]
    command += ["-k", f"{CLUSTERS[0]}..{CLUSTERS[1]}", "--n-init", "1", "--max-iter", str(PASSES), "--tol", "0"]
    command += ["--refine", "none", "--threads", str(threads), "--json", out, "-q"]
    for _ in range(args.runs):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        found.append({phase: result["timing_ms"][phase] for phase in PHASES} | {"passes": result["passes"]})
    return min(found, key=lambda times: sum(times[phase] for phase in PHASES))


def sums(points, features):
    """Of each phase, how many sums over all ranks, and their bytes on each."""
    chunks, most = -(-points // CHUNK), CLUSTERS[1]
    clusters = sum(range(CLUSTERS[0], CLUSTERS[1] + 1))
    row = 4 if features <= 2 else -(-(features + 2) // 8) * 8
    candidates = 1 + 4 * (most - 1)
    return {
        "read": (2, 2 * chunks * (2 + 4 * features) * 8),
        "seed": (2 * most, candidates * (1 + features + chunks) * 8),
        "sweep": (PASSES, PASSES * (3 * clusters * row + 2 * (CLUSTERS[1] - CLUSTERS[0] + 1)) * 8),
        "finish": (2, chunks * (clusters + 1) * 5 * 8),
    }


def model(args, own_ms, points, ranks, threads):
    """Milliseconds of each phase; own_ms: on one core, what is there without points, and a point's."""
    times = {}
    for phase, (count, size) in sums(points, args.features).items():
        times[phase] = own_ms[phase][0] / threads + own_ms[phase][1] * points / ranks / threads
        if ranks > 1:
            times[phase] += count * 2 * math.log2(ranks) * args.latency_us / 1e3
            times[phase] += 2 * size / args.gigabytes_s / 1e6
    return times


def show(name, times, base, parts):
    """A row of a table: total, speed-up against `base` on `parts` times the cores, share of each phase."""
    total = sum(times[phase] for phase in PHASES)
    speed = base / total
    shares = " | ".join(f"{100 * times[phase] / total:.0f} %" for phase in PHASES)
    print(f"| {name} | {total:,.0f} | {speed:.2f} | {100 * speed / parts:.0f} % | {shares} |")


def head(title):
    """The head of a table."""
    print(f"\n{title}\n\n| | ms | speed-up | efficiency | " + " | ".join(PHASES) + " |")
    print("|---|---|---|---|" + "---|" * len(PHASES))


def plot(path, speeds, title):
    """Draws speed-ups of ranks, both axes to base 2. speeds: by name, pairs of ranks and speed-up."""
    left, bottom, step, most = 60, 330, 29, 10
    lines = [f"<text x='{left}' y='20'>{title}</text>"]
    for i in range(most + 1):
        x, y = left + i * step, bottom - i * step
        lines.append(f"<path d='M{x} {bottom}V{bottom - most * step}M{left} {y}H{left + most * step}' stroke='#ddd'/>")
        if i % 2 == 0:
            lines.append(f"<text x='{x}' y='{bottom + 16}' text-anchor='middle'>{2**i}</text>")
            lines.append(f"<text x='{left - 6}' y='{y + 4}' text-anchor='end'>{2**i}</text>")
    lines.append(f"<text x='{left + most * step / 2:.0f}' y='{bottom + 34}' text-anchor='middle'>ranks</text>")
    lines.append(f"<text x='16' y='{bottom - most * step / 2:.0f}' text-anchor='middle' "
                 f"transform='rotate(-90 16 {bottom - most * step / 2:.0f})'>speed-up</text>")
    ends = sorted((curve[-1][1], name) for name, curve in speeds.items())
    beside = {}
    for speed, name in ends:  # names keep off each other
        y = bottom - math.log2(speed) * step + 4
        beside[name] = min(y, min(beside.values(), default=1e9) - 15)
    for (name, curve), color in zip(speeds.items(), ("#888", "#0a6", "#06c", "#c60", "#a0a", "#c33")):
        points = " ".join(f"{left + math.log2(r) * step:.1f},{bottom - math.log2(v) * step:.1f}" for r, v in curve)
        lines.append(f"<polyline points='{points}' fill='none' stroke='{color}' stroke-width='2'/>")
        lines.append(f"<text x='{left + most * step + 8}' y='{beside[name]:.1f}' fill='{color}'>{name}</text>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 480 380' font-family='sans-serif' "
                   "font-size='12'>\n<rect width='480' height='380' fill='#fff'/>\n" + "\n".join(lines) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1 << 22)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--latency-us", type=float, default=2.0, help="of a message")
    parser.add_argument("--gigabytes-s", type=float, default=12.5, help="of a link")
    parser.add_argument("--plot", metavar="FILE.svg", help="speed-up of up to 1,024 ranks by the model")
    parser.add_argument("program")
    args = parser.parse_args()
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        whole, half = os.path.join(folder, "whole.f32"), os.path.join(folder, "half.f32")
        os.environ["KMGEN_CACHE_DIR"] = os.path.join(folder, "cache")
        write_points(whole, args.points, args.features)
        write_points(half, args.points // 2, args.features)
        fit(args, folder, half, 1, 1)  # compiles, and brings the files into memory
        strong = {(r, t): fit(args, folder, whole, r, t) for r in (1, 2) for t in (1, 2)}
        weak = fit(args, folder, half, 1, 1)
    base = sum(strong[1, 1][phase] for phase in PHASES)
    head(f"Strong scaling, {args.points:,} x {args.features}, {cores} cores")
    for (ranks, threads), times in strong.items():
        show(f"{ranks} x {threads}", times, base, min(ranks * threads, cores))
    head(f"Weak scaling, {args.points // 2:,} x {args.features} a rank")
    show("1 x 1", weak, sum(weak[phase] for phase in PHASES), 1)
    show("2 x 1", strong[2, 1], sum(weak[phase] for phase in PHASES), 1)
    own_ms = {}
    for phase in PHASES:
        a_point = (strong[1, 1][phase] - weak[phase]) / (args.points / 2)
        own_ms[phase] = (max(strong[1, 1][phase] - a_point * args.points, 0), a_point)
    print("\n| | measured, ms | model, ms | off |\n|---|---|---|---|")
    for (ranks, threads), times in strong.items():
        total = sum(times[phase] for phase in PHASES)
        if ranks * threads > cores:
            continue
        told = sum(model(args, own_ms, args.points, ranks, threads).values())
        print(f"| {ranks} x {threads} | {total:,.0f} | {told:,.0f} | {100 * (told / total - 1):+.0f} % |")
    points, threads = 1 << 33, 32
    network = f"{args.latency_us} us, {args.gigabytes_s} GB/s"
    head(f"The model: {points:,} x {args.features}, {threads} cores a rank, {network}")
    first = sum(model(args, own_ms, points, 1, threads).values())
    for ranks in (1, 16, 128, 1024):
        show(f"{ranks:,} ranks", model(args, own_ms, points, ranks, threads), first, ranks)
    if args.plot:
        counts = [2**i for i in range(11)]
        times = [model(args, own_ms, points, ranks, threads) for ranks in counts]
        speeds = {"ideal": list(zip(counts, counts))}
        speeds["whole fit"] = [(r, first / sum(t.values())) for r, t in zip(counts, times)]
        for phase in PHASES:
            speeds[phase] = [(r, times[0][phase] / t[phase]) for r, t in zip(counts, times)]
        plot(args.plot, speeds, f"{points:,} x {args.features}, {threads} cores a rank, {network}")


if __name__ == "__main__":
    main()
