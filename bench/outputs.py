#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what kmgen prints into the docs: between <!-- outputs --> and <!-- end --> every line "    $ COMMAND" is run,
and what it prints stands below it, warnings first. All of a page run in one new folder, with the project's tests/ in
it; a picture that a command draws in docs/ there is copied too. With --check nothing is written, and pages that say
something else are named: times and the instruction set do not count, and pictures are not compared. Last digits and
numbers of iterations may be others on another processor.

Usage: bench/outputs.py [--check] KMGEN"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = ["README.md", "docs/output.md"]
MARKER = re.compile(r"(<!-- outputs -->\n)(.*?)(<!-- end -->)", re.S)
PROMPT = "    $ "


def run(command, folder, program):
    env = {**os.environ, "PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1",
           "HOME": folder, "KMGEN_CACHE_DIR": os.path.join(folder, "cache"), "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=said,
                              encoding="utf-8", check=False)
        said.seek(0)
        return said.read() + done.stdout


def printed(block, folder, program):
    lines = []
    for line in block.split("\n"):
        if not line.startswith(PROMPT):
            continue
        if lines and not lines[-1].startswith(PROMPT):
            lines.append("")
        lines.append(line)
        out = run(line.removeprefix(PROMPT), folder, program).rstrip("\n")
        lines += [("    " + text).rstrip() for text in out.split("\n")] if out else []
    return "\n" + "\n".join(lines) + "\n\n"


def without_times(text):
    text = re.sub(r"\bon cpu:\w+", "on cpu", re.sub(r"[0-9.]+ ms\b", "ms", text))
    return re.sub(r"\s+", " ", text)  # longer times wrap lines elsewhere


def page(path, program, check):
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        old = stream.read()
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(ROOT, "tests"), os.path.join(folder, "tests"))
        os.mkdir(os.path.join(folder, "docs"))
        os.mkdir(os.path.join(folder, "cache"), 0o700)
        new = MARKER.sub(lambda found: found[1] + printed(found[2], folder, program) + found[3], old)
        if not check:
            for name in os.listdir(os.path.join(folder, "docs")):
                shutil.copy(os.path.join(folder, "docs", name), os.path.join(ROOT, "docs", name))
    if "<!-- outputs " in MARKER.sub("", old) or old.count("<!-- outputs -->") != len(MARKER.findall(old)):
        return f"{path}: a marker of outputs has no end, or another form than the others"
    if check and without_times(new) == without_times(old):
        return None
    if check:
        return f"{path}: kmgen prints something else today: run bench/outputs.py"
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as out:
        out.write(new)
    return None


def main():
    check = sys.argv[1:2] == ["--check"]
    rest = sys.argv[2:] if check else sys.argv[1:]
    if len(rest) != 1 or rest[0].startswith("-"):
        print(__doc__)
        return 2
    wrong = [said for said in (page(path, os.path.realpath(rest[0]), check) for path in DOCS) if said]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
