"""Engines that are forked from the process of the tests, which has imported what they need.

They are processes as any other, with pipes, a session and an end of their own; what it saves is a
second of the processor, which importing takes. What starts with a new Python: test_viewer_process.
"""

from __future__ import annotations

import contextvars
import gc
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Sequence
from functools import cache
from typing import IO, Any

from natstui.__main__ import main
from natstui.output import asked_to_end
from natstui.tui.app.engine_process import EngineProcess

NEEDED = (
    "natstui.cli.complete", "natstui.cli.engine", "natstui.cli.root",
    "natstui.cli.sessions.replay", "natstui.config.contexts", "natstui.config.load",
    "natstui.config.target",
    "natstui.engine.analyzing", "natstui.engine.benchmarking", "natstui.engine.commands",
    "natstui.engine.live", "natstui.engine.process", "natstui.engine.recording",
    "natstui.engine.replay", "natstui.engine.stopping", "natstui.session.write.settings",
)  # fmt: skip


@cache
def _import_needed() -> None:
    for name in NEEDED:
        importlib.import_module(name)


class _Forked(subprocess.Popen[bytes]):
    """What runs `natstui` with the words that it is given, in a fork of this process."""

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:
        stdin, to_child, from_child, stdout, _, stderr = more[9:15]
        with warnings.catch_warnings():
            # Newer Pythons warn where there are threads; the fork has none, and waits for none.
            warnings.simplefilter("ignore")
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                code = contextvars.Context().run(_run, args, (stdin, stdout, stderr))
            finally:
                os._exit(code)
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined]
            stdin, to_child, from_child, stdout, -1, stderr
        )


def _run(words: Sequence[str], descriptors: Sequence[int]) -> int:
    """Run the words as a new process would, on these descriptors; return the exit code."""
    # What the tests left is neither looked through nor finished here.
    gc.freeze()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for target, descriptor in enumerate([os.dup(descriptor) for descriptor in descriptors]):
        os.dup2(descriptor, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # Open until the process ends.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    warnings.simplefilter("ignore")
    asked_to_end.clear()
    sys.argv = ["natstui", *words]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        _keep_coverage()
    return 0


def _keep_coverage() -> None:
    """Write what was reached, where that is measured: `os._exit` would lose it."""
    coverage = sys.modules.get("coverage")
    measuring = coverage.Coverage.current() if coverage is not None else None
    if measuring is not None:
        measuring.stop()
        measuring.save()


def start_forked(words: Sequence[str]) -> EngineProcess:
    """Start `natstui` with these words on pipes, as `start_engine` does."""
    _import_needed()
    # Whoever takes the process closes it.
    stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    pipe = subprocess.PIPE
    return EngineProcess(_Forked(words, stdin=pipe, stdout=pipe, stderr=stderr), stderr)
