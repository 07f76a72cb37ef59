# SPDX-License-Identifier: MIT
"""The program `kmgen` of the wheel. Beside the package, not in it: it starts without NumPy."""

from __future__ import annotations

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kmgen", "program")


def main() -> None:
    """Become the program, with the arguments that this one was given."""
    os.execv(PROGRAM, ["kmgen", *sys.argv[1:]])
