#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How well the cost model ranks plans, by spaces that were measured whole.

    kmgen tune --features 8 --clusters 3..12 --all --json space.json
    bench/model.py space.json [FILE...] [--design tensor] [--samples 4] [--csv]
    bench/model.py space.json --planner build/bench/model_predict
    bench/model.py space.json --keep tests/data/spaces

Of each space: the rank correlation (Spearman's, equal values share a rank) of predicted and measured ms over all
measured candidates, and the loss: the ms of the model's first choice over the best's, less 1. The first choice is the
measured candidate of the least prediction; of equal ones the planner's own choice, else the first. --design looks at
one design's candidates as if there were no others; --samples leaves out those that were timed less often: most of a
space are given up after one sample, which may be wrong by any factor. Predictions are those of the planner that
recorded the space; --planner takes today's, from the program of bench/model_predict.c. --keep writes the spaces into
a folder, without what neither this table nor tests/test_search.c looks at; --demand fails where the model ranks worse
(the suite `ranking`). Needs nothing but Python 3.9.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys

import tables

KEPT = ["kmgen", "device", "target", "driver", "facts", "compiler", "features", "clusters", "type", "points", "threads",
        "read_ms", "default", "best", "noise"]
KEPT_OF_CANDIDATES = ["plan", "predicted_ms", "outcome", "ms", "samples"]
HEAD = ["device", "features", "K", "type", "candidates", "measured", "rank correlation", "first choice, ms", "best, ms",
        "loss"]


# Figures ---------------------------------------------------------------------------------------------------------


def ranks(values):
    """1 for the least; equal values get the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out, at = [0.0] * len(values), 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            out[i] = (at + end + 1) / 2
        at = end
    return out


def correlation(x, y):
    """Pearson's; None where one of the two never varies."""
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    product = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    squares = sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    return product / squares ** 0.5 if squares > 0 else None


def list_text(clusters):
    is_range = clusters == list(range(clusters[0], clusters[-1] + 1))
    return tables.clusters_text([clusters[0], clusters[-1]]) if is_range else " ".join(map(str, clusters))


def measured_of(space, design, samples):
    """(prediction, whether it is another than the planner's choice, place, ms): the least is the first choice."""
    return [(c["predicted_ms"], i != space["default"], i, c["ms"]) for i, c in enumerate(space["candidates"])
            if c["outcome"] == "measured" and c["ms"] > 0 and c["predicted_ms"] is not None
            and c.get("samples", samples) >= samples and design in (None, c["plan"]["design"])]


def figures(space, design, samples):
    """A row of the table in numbers, as HEAD says; None where nothing was measured."""
    measured = measured_of(space, design, samples)
    if not measured:
        return None
    predicted, times = [m[0] for m in measured], [m[3] for m in measured]
    first, best = min(measured)[3], min(times)
    of_design = [c for c in space["candidates"] if design in (None, c["plan"]["design"])]
    return [space["device"], space["features"], list_text(space["clusters"]), space["type"], len(of_design),
            len(measured), correlation(ranks(predicted), ranks(times)), first, best, first / best - 1]


# Output ----------------------------------------------------------------------------------------------------------


def correlation_text(value):
    return "-" if value is None else f"{value:.3f}"


def cells(row):
    return [*row[:6], correlation_text(row[6]), tables.ms_text(row[7]), tables.ms_text(row[8]), f"{100 * row[9]:.1f}%"]


def totals(rows):
    known, losses = [row[6] for row in rows if row[6] is not None], [row[9] for row in rows]

    def total(name, of_correlations, of_losses):
        return [name, "", "", "", "", "", correlation_text(of_correlations(known) if known else None), "", "",
                f"{100 * of_losses(losses):.1f}%"]
    return [total("**median**", statistics.median, statistics.median), total("**worst**", min, max)]


def print_csv(rows):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(HEAD)
    out.writerows(["" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row]
                  for row in rows)


def load(path):
    try:
        with open(path, encoding="utf-8") as stream:
            space = json.load(stream)
    except (OSError, ValueError) as error:
        sys.exit(f"model.py: {path}: {error}")
    for key in ("device", "features", "clusters", "type", "default", "candidates"):
        if not isinstance(space, dict) or key not in space:
            sys.exit(f"model.py: {path}: no {key} in it: give it what kmgen tune --json wrote")
    return space


def predict(space, path, planner):
    """Replaces the predictions by those of today's planner."""
    done = subprocess.run([planner, path], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"model.py: {path}: {done.stderr.strip()}")
    for candidate, ms in zip(space["candidates"], json.loads(done.stdout)):
        candidate["predicted_ms"] = ms


def keep(space, path):
    out = {key: space[key] for key in KEPT if key in space}
    out["candidates"] = [{key: c[key] for key in KEPT_OF_CANDIDATES if key in c} for c in space["candidates"]]
    tables.write_json(path, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="+", metavar="FILE", help="what kmgen tune --json wrote")
    parser.add_argument("--design", help="only candidates of this one")
    parser.add_argument("--samples", type=int, default=1, help="only candidates with so many samples at least")
    parser.add_argument("--planner", metavar="PROGRAM", help="build/bench/model_predict: predictions of today")
    parser.add_argument("--csv", action="store_true", help="commas instead of a table, without medians")
    parser.add_argument("--keep", metavar="FOLDER", help="write the spaces there, smaller")
    parser.add_argument("--demand", nargs=2, type=float, metavar=("CORRELATION", "LOSS"),
                        help="fail where a space has a lower correlation or a larger loss (0.05: 5%%)")
    options = parser.parse_args()
    rows = []
    for path in options.spaces:
        space = load(path)
        if options.keep:
            keep(space, os.path.join(options.keep, os.path.basename(path)))
        if options.planner:
            predict(space, path, options.planner)
        row = figures(space, options.design, options.samples)
        if row:
            rows.append(row)
        else:
            print(f"model.py: {os.path.basename(path)}: nothing was measured"
                  f"{' of ' + options.design if options.design else ''}", file=sys.stderr)
    if not rows:
        return 1
    if options.csv:
        print_csv(rows)
    else:
        print(tables.table(HEAD, [cells(row) for row in rows] + totals(rows)), end="")
    return int(bool(options.demand) and any((row[6] or 0) < options.demand[0] or row[9] > options.demand[1]
                                            for row in rows))


if __name__ == "__main__":
    sys.exit(main())
