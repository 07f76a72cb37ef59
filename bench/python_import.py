#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Processor time of `import kmgen` beyond that of `import numpy`: medians of fresh processes, in one run.

Usage: PYTHONPATH=FOLDER_OF_KMGEN bench/python_import.py [--runs N]
"""

import argparse
import statistics
import subprocess
import sys

CODE = """
import time
a = time.process_time()
import numpy
b = time.process_time()
import kmgen
print(b - a, time.process_time() - b)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=21, help="processes to start; default: 21")
    runs = max(1, parser.parse_args().runs)
    took = []
    for _ in range(runs):
        done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
        took.append([float(word) * 1e3 for word in done.stdout.split()])
    numpy_ms, kmgen_ms = (statistics.median(column) for column in zip(*took))
    print(f"numpy {numpy_ms:.1f} ms, kmgen {kmgen_ms:.1f} ms more: medians of {runs}")


if __name__ == "__main__":
    main()
