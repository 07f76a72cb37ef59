#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of README.md, docs/performance.md, docs/sparse.md, docs/explore.md and docs/data.md, made of the JSON that
the benches write.

    bench/tables.py            writes them into the docs
    bench/tables.py --check    names those that are not what the JSON says, and fails if there are any

bench/results/gpu.json is the last full run of bench/gpu.py, cpu.json that of bench/cpu_peers.py, cpu2.json that of a
machine with two cores, where there is one; sparse.json and sparse_crossing.json are those of bench/sparse.py,
explore.json and explore_cuda.json are those of bench/explore.py, read_tables.json that of bench/read_tables.py. In the
docs a table stands between the lines `<!-- table NAME: bench/tables.py -->` and `<!-- end -->`, where NAME is a
function below. Needs nothing but Python 3.9.
"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "bench", "results")
DOCS = ["README.md", "docs/performance.md", "docs/sparse.md", "docs/explore.md", "docs/data.md"]
MARKER = re.compile(r"(<!-- table (\w+): bench/tables\.py -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CUDA_DESIGNS = ["registers", "tensor", "tiled"]
CUDA_POINTS = 33_554_432
PEER_NAMES = {"torch": "PyTorch", "torch-tf32": "PyTorch, TF32", "flash": "flash-kmeans",
              "flash-ieee": "flash-kmeans, IEEE", "sklearn": "scikit-learn", "intelex": "scikit-learn-intelex",
              "faiss": "faiss"}


# What the benches share -----------------------------------------------------------------------------------------


def commit(program=None):
    """Of the work tree that a program was built in; of this one where none is given."""
    where = os.path.dirname(os.path.realpath(program)) if program else ROOT
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
                          check=False, cwd=where)
    return done.stdout.strip() or "unknown"


def rounded(value):
    """Five digits are more than a repeat confirms."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def write_json(path, report):
    """A row a line, so that a difference can be read."""
    lines = []
    for key, value in rounded(report).items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f" {json.dumps(key)}: [\n  {items}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    with open(path, "w", encoding="utf-8") as out:
        out.write("{\n" + ",\n".join(lines) + "\n}\n")


def clusters_text(pair):
    return f"{pair[0]}..{pair[1]}" if pair[0] != pair[1] else str(pair[0])


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def ms_text(ms):
    return f"{ms:.4f}" if ms < 1 else f"{ms:.3f}" if ms < 10 else f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}"


def times_text(times):
    return f"{times:,.0f}" if times >= 10 else f"{times:.1f}"


def versions_text(report):
    return ", ".join(f"{name} {number}" for name, number in report["versions"].items() if number)


# The GPU ---------------------------------------------------------------------------------------------------------


def gpu_machine(reports):
    r = reports["gpu"]
    return (f"{r['date'][:10]}, commit {r['commit']}: one {r['device']} (SM clock up to {r['clock']}), driver "
            f"{r['driver']}, {r['cores']} CPU cores;\n{versions_text(r)}.\n")


def shape_cells(r):
    return [r["d"], clusters_text(r["clusters"]), r["type"], f"{r['n']:,}"]


def gpu_passes(reports):
    rows = []
    for r in reports["gpu"]["rows"]:
        each = [ms_text(r["each_k_ms"]), f"{r['gain']:.1f}"] if r["gain"] else ["", ""]
        rows.append([*shape_cells(r), r["design"], ms_text(r["ms"]) + ("" if r["right"] else " **wrong**"),
                     ms_text(r["read_ms"]), f"{r['per_read']:.2f}", f"{r['per_floor']:.2f}", *each])
    return table(["features", "K", "type", "points", "design", "pass, ms", "plain read, ms", "pass / read",
                  "pass / floor", "one K after another, ms", "gain"], rows)


def gpu_designs(reports):
    rows = []
    for r in reports["gpu"]["rows"]:
        cells = []
        for design in CUDA_DESIGNS:
            got, said = r["designs"].get(design, {}), r["estimates"].get(design)
            cell = ms_text(got["ms"]) + ("" if got["right"] else " **wrong**") if "ms" in got else "-"
            cell += f" ({ms_text(said['ms'])})" if said else ""
            cells.append(f"**{cell}**" if design == r["design"] else cell)
        rows.append([*shape_cells(r), *cells])
    return table(["features", "K", "type", "points", *CUDA_DESIGNS], rows)


def gpu_peers(reports):
    shown = [r for r in reports["gpu"]["rows"] if r["peers"]]
    names = list(dict.fromkeys(name for r in shown for name in r["peers"]))
    rows = []
    for r in shown:
        found = [r["peers"].get(name) for name in names]
        rows.append([*shape_cells(r), ms_text(r["ms"])] +
                    [f"{ms_text(p['ms'])} ({times_text(p['ms'] / r['ms'])})" if p else "-" for p in found])
    return table(["features", "K", "type", "points", "kmgen, ms"] + [PEER_NAMES[name] for name in names], rows)


def gpu_off(reports):
    """How exact each peer's iteration is, by features."""
    off = {}
    for r in reports["gpu"]["rows"]:
        for name, peer in r["peers"].items():
            cell = off.setdefault(name, {})
            cell[r["d"]] = max(peer["off"], cell.get(r["d"], 0))
    features = sorted({d for cells in off.values() for d in cells})
    return table(["features", *(PEER_NAMES[name] for name in off)],
                 [[d, *(f"{cells[d]:.0e}" if d in cells else "-" for cells in off.values())] for d in features])


def gpu_jobs(reports):
    report, rows = reports["gpu"], []
    if "loop" in report:
        loop = report["loop"]
        rows.append([f"one iteration with the host's part: {loop['n']:,} x {loop['d']}, K = 3..5", loop["passes"],
                     f"{loop['us'] / 1e3:.4f}"])
    for fit in report.get("fit", []):
        rows.append([f"a fit of points in memory: {fit['n']:,} x {fit['d']}, K = 2..12, 10 restarts, {fit['data']}",
                     fit["passes"], f"{fit['ms']:.1f}"])
    if "end" in report:
        end = report["end"]
        rows.append([f"from a .npy file in the page cache to the best K: {end['n']:,} x {end['d']}, K = 2..12, "
                     f"{end['restarts']} restarts, blobs", end["passes"], f"{end['total_ms']:.1f}"])
    return table(["job", "passes", "ms"], rows)


def gpu_end(reports):
    end = reports["gpu"].get("end")
    if not end:
        return ""
    rows = [[key, f"{ms:.1f}", f"{100 * ms / end['total_ms']:.0f}%"] for key, ms in end["phases"].items()]
    return table(["phase", "ms", "of the whole"], rows + [["**whole**", f"{end['total_ms']:.1f}", ""]])


# The CPU ---------------------------------------------------------------------------------------------------------


def cpu_machine_text(r):
    return (f"{r['date'][:10]}, commit {r['commit']}: {r['cpu']} ({r['vectors']}), {r['threads']} threads of "
            f"{r['cores']} cores, medians of {r['rounds']} turns;\n{versions_text(r)}.\n")


def cpu_best(row, peer):
    """The peer's median; of several numbers of threads the best."""
    return min((ms for title, ms in row["median_ms"].items() if title.split("-")[0] == peer), default=None)


def cpu_ratios(row):
    """Each of kmgen's algorithms against each peer: (kmgen, peer, how many times as fast)."""
    peers = dict.fromkeys(title.split("-")[0] for title in row["median_ms"] if not title.startswith("kmgen"))
    return [(own, peer, cpu_best(row, peer) / ms) for own, ms in row["median_ms"].items() if own.startswith("kmgen")
            for peer in peers]


def cpu_cells(row, own, peers):
    cells = []
    for peer in peers:
        ms = cpu_best(row, peer)
        cells.append(f"{ms_text(ms)} ({times_text(ms / row['median_ms'][own])})" if ms else "-")
    return cells


def cpu_peers_of(rows):
    found = dict.fromkeys(title.split("-")[0] for row in rows for title in row["median_ms"])
    return [peer for peer in found if peer != "kmgen"]


def cpu_lists_text(report):
    shown = [row for row in report["rows"] if row["clusters"][0] != row["clusters"][1]]
    peers, rows = cpu_peers_of(shown), []
    for row in shown:
        last = row["last"]["kmgen-auto"]
        rows.append([row["title"], row["d"], last["algorithm"], ms_text(row["median_ms"]["kmgen-auto"]),
                     *(f"{last[phase + '_ms']:.1f}" for phase in ("read", "sweep", "finish")),
                     ms_text(row["read_ms"]), *cpu_cells(row, "kmgen-auto", peers)])
    return table(["job", "features", "algorithm", "kmgen, ms", "load", "sweep", "finish", "plain read, ms",
                  *(PEER_NAMES[peer] for peer in peers)], rows)


def cpu_singles_text(report):
    shown = [row for row in report["rows"] if row["clusters"][0] == row["clusters"][1]]
    peers, rows = cpu_peers_of(shown), []
    for row in shown:
        for own in ("kmgen-lloyd", "kmgen-auto"):
            last = row["last"][own]
            rows.append([row["clusters"][0], row["d"], own.split("-")[1], f"{last['design']}, {last['algorithm']}",
                         ms_text(row["median_ms"][own]), *cpu_cells(row, own, peers)])
    return table(["K", "features", "--algorithm", "design, algorithm", "kmgen, ms",
                  *(PEER_NAMES[peer] for peer in peers)], rows)


def cpu_machine(reports):
    return cpu_machine_text(reports["cpu"])


def cpu_lists(reports):
    return cpu_lists_text(reports["cpu"])


def cpu_singles(reports):
    return cpu_singles_text(reports["cpu"])


def cpu2_machine(reports):
    return cpu_machine_text(reports["cpu2"])


def cpu2_lists(reports):
    return cpu_lists_text(reports["cpu2"])


def cpu2_singles(reports):
    return cpu_singles_text(reports["cpu2"])


# Subsets of columns --------------------------------------------------------------------------------------------------


def explore_machine(reports):
    r = reports["explore"]
    return (f"{r['date']}, commit {r['commit']}: {r['points']:,} x 18 float32, all {r['count']} subsets of three, "
            f"K = 8, 5 iterations, one start,\n{r['threads']} CPU threads. What is looped over so many subsets is "
            "scaled to all.\n")


def explore_times(reports):
    rows, own = [], {}
    for r in reports["explore"]["rows"]:
        own.setdefault(r["init"], r)
        first = own[r["init"]]
        rows.append([r["name"], r["init"], r["subsets"], f"{r['wall_ms'] / 1e3:,.1f}",
                     times_text(r["wall_ms"] / first["wall_ms"]), f"{r['cpu_ms'] / 1e3:,.1f}",
                     times_text(r["cpu_ms"] / first["cpu_ms"])])
    return table(["", "first centroids", "subsets", "wall, s", "times", "CPU, s", "times"], rows)


def explore_cuda(reports):
    r = reports["explore_cuda"]
    rows = [[row["title"], f"{row['runs']:,}", f"{row['distances']:.3g}", ms_text(row["passes_ms"]),
             ms_text(row["last_ms"]), f"{row['last_passes']:.1f}", f"{row['wall_ms'] / 1e3:.1f}"] for row in r["rows"]]
    words = f"{r['date']}, commit {r['commit']}, {r['device']}: {r['points']:,} x 18 float32, subsets of three, K = 8."
    head = ["job", "runs", "distances", "passes, ms", "last pass, ms", "in plain passes", "whole process, s"]
    return f"{words}\n\n{table(head, rows)}"


def explore_ranking(reports):
    r = reports["explore"]
    rows = [[", ".join(s["columns"]), f"{s['accuracy']:.4f}", f"{s['balanced_accuracy']:.4f}",
             f"{s['mutual_information']:.4f}"] for s in r["best"]]
    rows += [[" + ".join(f"({', '.join(one)})" for one in c["subsets"]), f"{c['accuracy']:.4f}",
              f"{c['balanced_accuracy']:.4f}", f"{c['mutual_information']:.4f}"] for c in r["combined"]]
    trees = r["forest"]
    if trees:
        first = sorted(trees["importances"].items(), key=lambda item: -item[1])[:2]
        rows += [["random forest on all 18 columns", f"{trees['all_columns']:.4f}", "", ""],
                 ["random forest on the best code", f"{trees['best_code']:.4f}", "", ""],
                 ["random forest on the three best codes", f"{trees['three_best_codes']:.4f}", "", ""]]
    often = ", ".join(f"`{c['column']}` in {c['among_best']}" for c in r["often"][:3])
    forest = ", ".join(f"`{name}` ({value:.2f})" for name, value in first) if trees else ""
    words = f"The most frequent class has {r['baseline']:.4f} of the rows. Among the ten best: {often}."
    if trees:
        words += f"\nThe forest's most important columns: {forest}."
    return table(["code", "accuracy", "balanced", "bits"], rows) + f"\n{words}\n"


# Sparse tables -----------------------------------------------------------------------------------------------------


def sparse_machine(reports):
    return cpu_machine_text(reports["sparse"])


def sparse_fits(reports):
    rows = []
    for row in reports["sparse"]["rows"]:
        own, last = row["median_ms"]["kmgen"], row["last"]["kmgen"]
        others = (row["median_ms"].get(name) for name in ("kmgen-dense", "sklearn", "intelex"))
        rows.append([row["title"], ms_text(own), *(f"{last[step + '_ms']:.0f}" for step in
                                                   ("read", "seed", "sweep", "finish")),
                     *(f"{ms_text(ms)}: {times_text(ms / own)}" if ms else "-" for ms in others)])
    return table(["job", "kmgen, csr", "load", "seed", "sweep", "finish", "kmgen, dense", "scikit-learn",
                  "scikit-learn-intelex"], rows)


def sparse_crossing_machine(reports):
    return cpu_machine_text(reports["sparse_crossing"])


def sparse_crossing(reports):
    def percent(share):
        return f"{100 * share:.0f} %" if share else "none"

    rows = []
    for row in reports["sparse_crossing"]["rows"]:
        measured, predicted = row["measured"], row["predicted"]
        times = f"{max(measured / predicted, predicted / measured):.2f}" if measured and predicted else "-"
        rows.append([row["d"], row["clusters"], percent(measured), percent(predicted), times])
    return table(["features", "K", "measured", "planned", "times"], rows)


# Reading -----------------------------------------------------------------------------------------------------------


def read_tables(reports):
    r = reports["read_tables"]
    rows = [[row["name"], row["threads"], f"{row['seconds']:.3f}", f"{r['points'] / row['seconds'] / 1e6:.1f}",
             f"{row['cpu_seconds']:.2f}"] for row in r["rows"]]
    words = (f"{r['date']}, commit {r['commit']}: {r['points']:,} rows, {r['bytes'] / 1e6:.0f} MB, {r['columns']} "
             f"columns of which {r['used']} are used; {r['cpu']}, {r['cores']} cores,\nbest of {r['repeats']} turns; "
             f"{versions_text(r)}.")
    head = ["reader", "threads", "s", "million rows/s", "CPU, s"]
    return f"{words}\n\n{table(head, rows)}"


# README ----------------------------------------------------------------------------------------------------------


def fast(reports):
    """One line a job: kmgen, a plain read of the same data, and the fastest of the peers."""
    rows = []
    gpu = {r["row"]: r for r in reports["gpu"]["rows"]}
    for name in ("d4_k3_5", "d16_k3_12", "d128_k1024"):
        r = gpu[name]
        peer, best = min(((peer, p["ms"]) for peer, p in r["peers"].items()), key=lambda found: found[1])
        device = reports["gpu"]["device"].removeprefix("NVIDIA ")
        rows.append([f"an iteration, K = {clusters_text(r['clusters'])}: {r['n']:,} x {r['d']}, {device}",
                     f"{ms_text(r['ms'])} ms", f"{ms_text(r['read_ms'])} ms", f"{PEER_NAMES[peer]}: {ms_text(best)} ms",
                     times_text(best / r["ms"])])
    cpu = {r["row"]: r for r in reports["cpu"]["rows"]}
    for name in ("d8", "converge-d2"):
        r = cpu[name]
        own = r["median_ms"]["kmgen-auto"]
        best, peer = min((cpu_best(r, peer), peer) for peer in cpu_peers_of([r]))
        rows.append([f"a fit {r['title'].replace('10 iterations', 'of 10 iterations')}: {r['n']:,} x {r['d']}, "
                     f"{reports['cpu']['threads']} cores of a CPU", f"{ms_text(own)} ms", f"{ms_text(r['read_ms'])} ms",
                     f"{PEER_NAMES[peer]}: {ms_text(best)} ms", times_text(best / own)])
    return table(["job, float32", "kmgen", "plain read", "next best", "times"], rows)


TABLES = [gpu_machine, gpu_passes, gpu_designs, gpu_peers, gpu_off, gpu_jobs, gpu_end, cpu_machine, cpu_lists,
          cpu_singles, cpu2_machine, cpu2_lists, cpu2_singles, sparse_machine, sparse_fits, sparse_crossing_machine,
          sparse_crossing, explore_machine, explore_times, explore_cuda, explore_ranking,
          read_tables, fast]


def text(name, reports):
    return next(make for make in TABLES if make.__name__ == name)(reports)


def write_docs(check=False):
    """The docs with their tables made anew; returns what is wrong. check: writes nothing."""
    reports = {}
    for name in sorted(os.listdir(RESULTS)):
        with open(os.path.join(RESULTS, name), encoding="utf-8") as stream:
            reports[name.removesuffix(".json")] = json.load(stream)
    wrong = []
    for path in DOCS:
        with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
            old = stream.read()
        new = MARKER.sub(lambda found: found[1] + "\n" + text(found[2], reports) + "\n" + found[4], old)
        if "<!-- table " in MARKER.sub("", old):
            wrong.append(f"{path}: a table's marker has no end, or another form than the others")
        if new == old:
            continue
        if check:
            wrong.append(f"{path}: a table is not what bench/results says: run bench/tables.py")
        else:
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as out:
                out.write(new)
    return wrong


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__)
        return 2
    wrong = write_docs(check)
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
