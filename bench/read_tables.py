# SPDX-License-Identifier: MIT
"""Rows a second that a text table is read with, by kmgen and by libraries that are installed, on so many threads.

    bench/read_tables.py KMGEN TABLE.csv COLUMN... [--threads 1,2] [--repeats 3] [--json bench/results/read_tables.json]

COLUMN: the columns of numbers that are wanted; all others are passed over. Each reader runs in a process of its own,
all readers by turns; the best of the repeats counts. CPU is seconds of all threads, which other programs on the machine
disturb less. bench/tables.py makes the table of docs/data.md of --json."""
import argparse
import importlib.metadata
import os
import re
import resource
import subprocess
import sys
import time

from cpu_peers import cpu_name
from tables import commit, read_tables, write_json

READERS = {
    "pandas": "import pandas\nread = lambda: pandas.read_csv(path, usecols=columns)[columns].to_numpy()",
    "polars": "import polars\nread = lambda: polars.read_csv(path, columns=columns).select(columns).to_numpy()",
    "duckdb": "import duckdb\nduckdb.sql(f'set threads to {threads}')\nnames = ', '.join(f'\"{c}\"' for c in columns)\n"
              "read = lambda: duckdb.sql(f\"select {names} from read_csv('{path}')\").fetchnumpy()",
}
CODE = """import sys, time
path, threads, columns = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
{}
begin, cpu = time.perf_counter(), time.process_time()
read()
print(time.perf_counter() - begin, time.process_time() - cpu)"""


def version_of(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def by_library(name, threads, path, columns):
    environment = dict(os.environ, POLARS_MAX_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
    run = subprocess.run([sys.executable, "-c", CODE.format(READERS[name]), path, str(threads), *columns],
                         stdout=subprocess.PIPE, text=True, env=environment, check=True)
    return tuple(map(float, run.stdout.split()[-2:]))


def by_kmgen(kmgen, threads, path, columns):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([kmgen, "fit", path, "--columns", ",".join(columns), "--missing", "drop", "-k", "2",
                          "--threads", str(threads), "--dry-run", "-v"], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = float(re.search(r"opened, .* in ([0-9.]+) ms", run.stderr)[1]) / 1e3
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kmgen")
    parser.add_argument("table")
    parser.add_argument("columns", nargs="+")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with open(arguments.table, "rb") as table:
        rows = sum(1 for _ in table) - 1
        table.seek(0)
        columns = table.readline().count(b",") + 1
    report = {"date": time.strftime("%Y-%m-%d"), "commit": commit(arguments.kmgen), "cpu": cpu_name(),
              "cores": os.cpu_count(),
              "versions": {name: version_of(name) for name in READERS if version_of(name)}, "points": rows,
              "bytes": os.path.getsize(arguments.table), "columns": columns, "used": len(arguments.columns),
              "repeats": arguments.repeats, "rows": []}
    for threads in map(int, arguments.threads.split(",")):
        names = ["kmgen", *report["versions"]]
        times = {name: [] for name in names}
        for _ in range(arguments.repeats):
            for name in names:
                times[name].append(by_kmgen(arguments.kmgen, threads, arguments.table, arguments.columns)
                                   if name == "kmgen" else
                                   by_library(name, threads, arguments.table, arguments.columns))
        report["rows"] += [{"name": name, "threads": threads, "seconds": min(wall for wall, _ in times[name]),
                            "cpu_seconds": min(cpu for _, cpu in times[name])} for name in names]
    print(read_tables({"read_tables": report}), end="")
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
