"""One viewer on a made-up engine, measured from inside: started by `viewer.py` in a terminal.

Arguments: STREAMS CONSUMERS KEYS SECONDS FILE. Writes figures as JSON into FILE.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from textual.screen import Screen

from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.link import Link

WARM_UP_S = 6.0


def main() -> None:
    """Run the viewer for a while and write what it cost."""
    streams, consumers, keys, seconds, file = sys.argv[1:]
    argv = (sys.executable, "-m", "benchmarks._made_engine", streams, consumers)
    link = Link(argv)
    app = NatstuiApp(link.wait_started(), lambda *words: Link((*argv, *words)), link)
    frames_ms: list[float] = []
    draw = Screen._on_timer_update

    def timed(screen: Screen[object]) -> None:
        before = time.process_time_ns()
        dirty = bool(screen._dirty_widgets)
        draw(screen)
        if dirty:
            frames_ms.append((time.process_time_ns() - before) / 1e6)

    Screen._on_timer_update = timed  # type: ignore[method-assign]

    async def measure() -> None:
        for key in keys:
            app.simulate_key(key)
            await asyncio.sleep(0.5)
        await asyncio.sleep(WARM_UP_S)
        frames_ms.clear()
        cpu, wall, polls = time.process_time(), time.monotonic(), len(app.state.costs)
        await asyncio.sleep(float(seconds))
        elapsed_s = time.monotonic() - wall
        Path(file).write_text(
            json.dumps(
                {
                    "cpu_percent": 100 * (time.process_time() - cpu) / elapsed_s,
                    "polls_per_s": (len(app.state.costs) - polls) / elapsed_s,
                    "frame_ms_median": statistics.median(frames_ms or [0]),
                    "frame_ms_p95": sorted(frames_ms or [0])[int(len(frames_ms) * 0.95) - 1],
                    "frames": len(frames_ms),
                }
            )
        )

    async def run() -> None:
        measuring = asyncio.ensure_future(measure())
        await app.run_async(mouse=False)
        measuring.cancel()

    asyncio.run(run())
    link.close()


if __name__ == "__main__":
    main()
