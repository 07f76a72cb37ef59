# SPDX-License-Identifier: MIT
"""One call of the library: its parameters, interrupts and progress while it runs."""

from __future__ import annotations

import ctypes
import math
import numbers
import os
import sys
from typing import Any

from . import _library as lib

_TARGETS = {"auto": (-2, "auto"), "cpu": (-1, "cpu"), "cuda": (-2, "cuda")}
_ASK_EVERY_S = 0.05
_UNITS = {"seed": "pick", "sweep": "run", "predict": "point"}

_forked = False


def _after_fork() -> None:
    # Threads of OpenMP that the parent had started are not there in the child, which would wait for them.
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


def choose(what: str, value: Any, choices: dict[Any, Any]) -> Any:
    """Look a word up; ValueError names those that there are."""
    try:
        return choices[value]
    except (KeyError, TypeError):
        words = ", ".join(repr(word) for word in choices)
        raise ValueError(f"{what} must be one of {words}; got {value!r}") from None


def threads_of(threads: int | None) -> int:
    """Decide how many threads: as the program, by OMP_NUM_THREADS; one in a process that was forked."""
    if _forked:
        return 1
    if threads is not None:
        if not isinstance(threads, numbers.Integral) or not 1 <= int(threads) <= 4096:
            raise ValueError(f"threads must be a whole number from 1 to 4096, or None; got {threads!r}")
        return int(threads)
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(wanted) if wanted.isdigit() and 1 <= int(wanted) <= 4096 else 0


def new_params(threads: int | None) -> Any:
    """Make km_fit_params with defaults and the number of threads."""
    params = lib.FitParams()
    lib.dll.km_fit_params_init(ctypes.byref(params))
    params.threads = threads_of(threads)
    return params


def set_device(params: Any, spec: Any, device: Any) -> None:
    """Set the device of params, and the target of a spec where there is one."""
    if isinstance(device, str) and device.startswith("cuda:") and device[5:].isdigit():
        params.device, target = int(device[5:]), "cuda"
    else:
        params.device, target = choose("device (or 'cuda:0' and so on)", device, _TARGETS)
    if spec is not None:
        lib.call("km_spec_set_target", ctypes.byref(spec), target.encode())


class _Bar:
    """A progress bar by tqdm, where it is installed and somebody may look."""

    def __init__(self, wanted: bool) -> None:
        self._bar: Any = None
        if wanted and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._phase, self._bar = "", tqdm(total=None, leave=False)

    def __bool__(self) -> bool:
        return self._bar is not None

    def show(self, phase: str, done: int, total: int, passes: int) -> None:
        if phase != self._phase:  # what is left is counted, and its time guessed, for each phase anew
            self._phase = phase
            self._bar.reset(total or None)
            self._bar.total = total or None
            self._bar.set_description_str(phase, refresh=False)
        self._bar.unit = _UNITS.get(phase, "step") if total else "pass"
        self._bar.set_postfix_str(f"{passes} passes" if passes and total else "", refresh=False)
        self._bar.n = done if total else passes
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class Watch:
    """Lets Python handle signals now and then while the library works, so that Ctrl-C is seen, and moves the bar."""

    def __init__(self, params: Any, verbose: int = 0, most_s: float = 0) -> None:
        import threading

        self._raised: BaseException | None = None
        self._bar = _Bar(verbose > 0)
        self._progress = lib.Progress(*lib.INTERPRETER, None, _ASK_EVERY_S, 0, most_s)
        # Python handles signals in its main thread only: elsewhere there is nothing to ask.
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main and not self._bar:
            self._progress.every_s = math.inf
        if is_main or self._bar or most_s > 0:
            params.progress = lib.ON_PROGRESS
            params.progress_user = ctypes.addressof(self._progress)
        if self._bar:
            self._show = lib.SHOW(self._on_show)
            self._progress.show = ctypes.cast(self._show, ctypes.c_void_p)
        if verbose > 1:
            self._line = lib.LOG_LINE(self._on_line)
            self._log = lib.Log(ctypes.cast(self._line, ctypes.c_void_p), None)
            params.log = ctypes.addressof(self._log)

    def _on_show(self, phase: bytes, done: int, total: int, passes: int) -> int:
        try:
            self._bar.show(phase.decode(), done, total, passes)
        except BaseException as error:  # of a signal that came just now, or of the bar
            self._raised = error
            return 1
        return 0

    @staticmethod
    def _on_line(_user: Any, level: int, text: bytes) -> None:
        import logging

        levels = (logging.WARNING, logging.INFO, logging.DEBUG)
        logging.getLogger("kmgen").log(levels[level], "%s", text.decode(errors="replace"))

    def close(self) -> None:
        """Raise what stopped the fit, if anything but the fit did."""
        self._bar.close()
        if self._progress.exception[0]:
            taken, self._progress.exception = tuple(self._progress.exception), (ctypes.c_void_p * 3)()
            lib.RESTORE(*taken)
        if self._raised is not None:
            raise self._raised
