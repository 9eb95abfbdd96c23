"""An app whose output is made and thrown away, and its frames timed."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

from textual.app import App
from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.screen import Screen


class NullDriver(HeadlessDriver):
    """Takes what a terminal would, so that frames cost what they cost; counts the bytes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.written_bytes = 0

    def write(self, data: str) -> None:
        """Count and forget."""
        self.written_bytes += len(data.encode())

    @property
    def is_headless(self) -> bool:
        """Say no, or nothing would be drawn."""
        return False


class TimedScreen(Screen[None]):
    """Notes the processor time of every frame that draws something."""

    def __init__(self) -> None:
        super().__init__()
        self.frames_ms: list[float] = []

    def _on_timer_update(self) -> None:
        dirty = bool(self._dirty_widgets) or self._repaint_required
        started = time.process_time_ns()
        super()._on_timer_update()
        if dirty:
            self.frames_ms.append((time.process_time_ns() - started) / 1e6)


class BenchApp(App[None]):
    """Draws everything, shows it to nobody, and knows what it cost."""

    def __init__(self) -> None:
        super().__init__()
        self.timed = TimedScreen()
        self.null_driver: NullDriver | None = None

    def get_default_screen(self) -> Screen[None]:
        """Return the screen with the stop-watch."""
        return self.timed

    def _build_driver(
        self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None
    ) -> Driver:
        self.null_driver = NullDriver(self, size=size)
        return self.null_driver

    @property
    def written_bytes(self) -> int:
        """Return how much was sent to the terminal so far."""
        return self.null_driver.written_bytes if self.null_driver else 0

    def median_frame_ms(self) -> float:
        """Return the median since the last call."""
        frames, self.timed.frames_ms = self.timed.frames_ms, []
        return statistics.median(frames) if frames else math.nan
