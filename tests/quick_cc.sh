#!/bin/sh
# SPDX-License-Identifier: MIT
# The system's compiler for emitted kernels, optimising little: suites take it in their short form (short_form.h).
exec cc "$@" -Og
