"""Where a run stands: the step it is at, and how many of Spark's tasks are done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

EVERY_S = 0.5


class Progress:
    """Tells each new step at once, and a few times a second how far it is."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], steps_count: int) -> None:
        self._tell = tell
        self._steps_count = steps_count
        self._done_count = -1
        self._text = ""
        self._check: Callable[[], None] = lambda: None
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def step(self, text: str) -> None:
        """Begin a step; raises KeyboardInterrupt when the run shall end."""
        self._check()
        with self._lock:
            self._done_count += 1
            self._text = text
        self._say(0, 0)

    def wait(self) -> None:
        """Say that another run has the folder of the tables."""
        self._text = "waiting for another analysis that writes the same tables"
        self._say(0, 0)

    def watch(self, spark: SparkSession, check: Callable[[], None]) -> None:
        """Follow Spark's own count of tasks from a thread; a Connect server has none.

        `check` is called before each step and raises when the run shall end.
        """
        self._check = check
        context = getattr(spark, "_jsc", None) and spark.sparkContext
        if context:
            tracker = context.statusTracker()
            threading.Thread(target=self._follow, args=(tracker,), daemon=True).start()

    def end(self) -> None:
        """Stop following."""
        self._ended.set()

    def _follow(self, tracker: Any) -> None:
        before = (0, 0)
        while not self._ended.wait(EVERY_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            now = (
                sum(stage.numCompletedTasks for stage in known),
                sum(stage.numTasks for stage in known),
            )
            if now != before and not self._ended.is_set():
                self._say(*now)
            before = now

    def _say(self, tasks_done_count: int, tasks_count: int) -> None:
        self._tell(
            {
                "kind": "progress",
                "text": self._text,
                "done_count": max(self._done_count, 0),
                "steps_count": self._steps_count,
                "tasks_done_count": tasks_done_count,
                "tasks_count": tasks_count,
            }
        )
