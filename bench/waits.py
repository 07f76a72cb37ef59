#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a person waits for: whole processes of kmgen on a GPU, from start to end by this script's clock, in ms.

Rows: the first fit of a shape (empty cache); the first fit with the cache of another shape of the same type and
features; the second fit. Of each: until the table is there / until the process has ended. What a fit leaves to a
process in the background is waited for before the next one begins, and told in brackets. Programs take turns, so that
they meet the same machine. The driver's own cache is off.

Usage: bench/waits.py [--runs N] [--mib M] [--folder DIR] KMGEN...
"""

import argparse
import array
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

# Features, the list of K, and the one whose cache is there in the second row.
SHAPES = [(5, "2..9", "3..8"), (10, "3..12", "2..10"), (24, "2..16", "3..15")]


def write_points(path, features, mib):
    """Blobs as .npy; a block of them is written again and again, which times do not depend on."""
    block_rows = 16384
    rows = mib * 2**20 // 4 // features // block_rows * block_rows
    draw = random.Random(features)
    centres = [[draw.uniform(-8, 8) for _ in range(features)] for _ in range(7)]
    block = array.array("f")
    for _ in range(block_rows):
        block.extend(c + draw.gauss(0, 1) for c in draw.choice(centres))
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {features}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        for _ in range(rows // block_rows):
            block.tofile(file)


def since(begin):
    return (time.perf_counter() - begin) * 1e3


def is_compiling(cache):
    return any(name.endswith((".todo", ".lock")) for name in os.listdir(cache))


def fit_ms(program, points, clusters, cache):
    """Until the table, until the end, and what goes on behind it."""
    command = [program, "fit", points, "-k", clusters, "--n-init", "4", "-t", "cuda", "--cache-dir", cache, "-q"]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "CUDA_CACHE_DISABLE": "1"}) as fit:
        fit.stdout.readline()
        shown = since(begin)
        fit.stdout.read()
    ended = since(begin)
    if fit.returncode:
        sys.exit(f"{' '.join(command)} ended with {fit.returncode}")
    while is_compiling(cache) and since(begin) < 60e3:
        time.sleep(0.01)
    return shown, ended, since(begin) - ended


def told(each):
    shown, ended, behind = each
    return f"{shown:.0f}/{ended:.0f}" + (f" [{behind:.0f}]" if behind > 10 else "")


def measure(programs, features, clusters, other, runs, points, folder):
    took = {(program, row): [] for program in programs for row in ("first", "other shape", "second")}
    for _ in range(runs):
        for program in programs:
            cache = tempfile.mkdtemp(dir=folder)
            took[program, "first"].append(fit_ms(program, points, clusters, cache))
            took[program, "second"].append(fit_ms(program, points, clusters, cache))
            shutil.rmtree(cache)
            cache = tempfile.mkdtemp(dir=folder)
            fit_ms(program, points, other, cache)
            took[program, "other shape"].append(fit_ms(program, points, clusters, cache))
            shutil.rmtree(cache)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="KMGEN")
    parser.add_argument("--runs", type=int, default=3, help="of each row and program; default: 3")
    parser.add_argument("--mib", type=int, default=512, help="size of the points; default: 512")
    parser.add_argument("--folder", default="/dev/shm", help="for points and caches; default: /dev/shm")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(dir=options.folder)
    points = os.path.join(folder, "points.npy")
    try:
        for features, clusters, other in SHAPES:
            write_points(points, features, options.mib)
            fit_ms(options.programs[0], points, clusters, folder)  # the driver and the points are in memory
            took = measure(options.programs, features, clusters, other, options.runs, points, folder)
            for (program, row), each in took.items():
                median = statistics.median(ended for _, ended, _ in each)
                print(f"d = {features}, K = {clusters}, {row}, {program}: {median:.0f} ms"
                      f" ({', '.join(map(told, each))})", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
