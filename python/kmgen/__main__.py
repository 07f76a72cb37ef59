# SPDX-License-Identifier: MIT
"""The program `kmgen`, which the package brings along: ``python -m kmgen fit table.csv``."""

from _kmgen_program import main

main()
