"""Cancel Spark's jobs: on Ctrl-C, or when the parent process ends."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from pyspark import SparkContext
from pyspark.sql import SparkSession

_AGAIN_S = 0.2


class Cancel:
    """Cancels Spark's jobs on SIGINT.

    It does not raise from inside the handler: the main thread may be in the middle of a call
    into the JVM, and its connection could not be used afterwards. The job that is running fails
    instead, and those that would come next fail as well.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._asked = threading.Event()
        self._ended = threading.Event()
        signal.signal(signal.SIGINT, self._interrupted)

    @property
    def asked(self) -> bool:
        """Tell whether the run was cancelled."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise KeyboardInterrupt when the run was cancelled."""
        if self.asked:
            raise KeyboardInterrupt

    def end(self) -> None:
        """Stop cancelling: no job is left."""
        self._ended.set()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if not self._asked.is_set():
            self._asked.set()
            threading.Thread(target=self._keep_cancelling, daemon=True).start()

    def _keep_cancelling(self) -> None:
        while not self._ended.is_set():
            if getattr(self._spark, "_jsc", None):
                self._spark.sparkContext.cancelAllJobs()
            else:
                self._spark.interruptAll()
            self._ended.wait(_AGAIN_S)


def end_jvm() -> None:
    """Kill the JVM that we started: its own shutdown is not needed after a cancelled run."""
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        jvm.kill()


def end_starting() -> None:
    """End a JVM that is still starting: nothing else would end it.

    It shares our process group, which is ours alone when natstui started us.
    """
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)


def jvm_exit_code() -> int | None:
    """Return how the JVM that we started ended; None while it runs, or where we started none."""
    jvm = getattr(SparkContext._gateway, "proc", None)
    return None if jvm is None else jvm.poll()
