#!/bin/sh
# SPDX-License-Identifier: MIT
# The system's compiler for emitted kernels, optimising little: suites take it in their short form (short_form.h).
exec "${0%/*}/vector_cc.sh" cc -Og "$@"
