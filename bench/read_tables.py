# SPDX-License-Identifier: MIT
"""Rows a second that a text table is read with, by kmgen and by libraries that are installed, on so many threads.

    bench/read_tables.py KMGEN TABLE.csv COLUMN... [--threads 1,2] [--repeats 3]

COLUMN: the columns of numbers that are wanted; all others are passed over. Each reader runs in a process of its own;
the best of the repeats counts. CPU is seconds of all threads, which other programs on the machine disturb less."""
import argparse
import os
import re
import resource
import subprocess
import sys
import time

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


def by_library(name, threads, path, columns):
    environment = dict(os.environ, POLARS_MAX_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
    run = subprocess.run([sys.executable, "-c", CODE.format(READERS[name]), path, str(threads), *columns],
                         capture_output=True, text=True, env=environment)
    return None if run.returncode else tuple(map(float, run.stdout.split()[-2:]))


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
    arguments = parser.parse_args()
    with open(arguments.table, "rb") as table:
        rows = sum(1 for _ in table) - 1
    print(f"{rows} rows, {os.path.getsize(arguments.table) / 1e6:.0f} MB, {time.strftime('%Y-%m-%d')}")
    print("| reader | threads | seconds | rows/s | CPU seconds |\n|---|---|---|---|---|")
    for threads in map(int, arguments.threads.split(",")):
        for name in ["kmgen", *READERS]:
            times = []
            for _ in range(arguments.repeats):
                if name == "kmgen":
                    times.append(by_kmgen(arguments.kmgen, threads, arguments.table, arguments.columns))
                else:
                    times.append(by_library(name, threads, arguments.table, arguments.columns))
            if None in times:
                print(f"| {name} | {threads} | not installed | | |")
                continue
            wall, cpu = min(t[0] for t in times), min(t[1] for t in times)
            print(f"| {name} | {threads} | {wall:.3f} | {rows / wall:.3g} | {cpu:.2f} |")


if __name__ == "__main__":
    main()
