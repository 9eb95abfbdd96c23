"""What a chart costs: in the viewer (thinning, lines) and in the drawing process (plotext)."""

from __future__ import annotations

import asyncio
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

from natstui.tui.kit.chart.frame import ChartData, Series, plot_frame
from natstui.tui.kit.chart.plotter import Plotter, parse_line
from natstui.tui.kit.sparkline import sparkline

ROUNDS = 20


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the processor time of one call, the best of several."""
    best = math.inf
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        work()
        best = min(best, (time.process_time_ns() - started) / 1e6)
    return best


def data(points: int, lines: int, *, noisy: bool) -> ChartData:
    """Return smooth waves or white noise over 15 minutes."""
    chance = random.Random(1)
    at_s = [-900 + index * 900 / (points - 1) for index in range(points)]
    series = tuple(
        Series(
            f"line {line}",
            [
                chance.random() * 100 if noisy else 50 + 40 * math.sin(at / 60 + line)
                for at in at_s
            ],
        )
        for line in range(lines)
    )
    return ChartData("Rates", "msgs/s", at_s, series, 900)


async def one(width: int, height: int, points: int, lines: int, *, noisy: bool) -> None:
    """Print the costs of one size."""
    chart = data(points, lines, noisy=noisy)
    frame = plot_frame(chart, width, height)
    thinning_ms = cpu_ms(lambda: plot_frame(chart, width, height))
    plotter = Plotter()
    await plotter.draw(frame)
    started = time.monotonic()
    cpu = time.process_time()
    for _ in range(ROUNDS):
        await plotter.draw(frame)
    round_trip_ms = (time.monotonic() - started) / ROUNDS * 1000
    here_ms = (time.process_time() - cpu) / ROUNDS * 1000
    await plotter.close()
    kind = "noise" if noisy else "waves"
    viewer_ms = thinning_ms + here_ms
    print(
        f"{width:3}×{height:<3} {lines} × {points:4} {kind}: viewer {viewer_ms:5.1f} ms"
        f"   asked to drawn {round_trip_ms:6.1f} ms   plotext alone {built_ms(frame):6.1f} ms"
    )


def built_ms(frame: object) -> float:
    """Return what plotext needs for a frame, measured in a process of its own."""
    code = (
        "import json, sys, time\n"
        "from natstui.tui.kit.chart.process import draw\n"
        "frame = json.loads(sys.stdin.read()); draw(frame); best = 1e9\n"
        "for _ in range(10):\n"
        "    t = time.process_time(); draw(frame); best = min(best, time.process_time() - t)\n"
        "print(best * 1000)\n"
    )
    text = json.dumps(asdict(frame))  # type: ignore[call-overload]
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    """Print charts of usual sizes, and sparklines."""
    for width, height, points, lines in ((53, 14, 120, 2), (80, 20, 300, 2), (120, 30, 900, 4)):
        for noisy in (False, True):
            asyncio.run(one(width, height, points, lines, noisy=noisy))
    values = [random.random() * 100 for _ in range(1200)]
    spark_ms = cpu_ms(lambda: sparkline(values[:16], 12))
    print(f"sparkline of 16 values in 12 cells: {spark_ms * 1000:.0f} µs")
    line = "\x1b[38;5;1m⠤⠤\x1b[0m   " * 30
    print(f"a drawn line into styled parts:     {cpu_ms(lambda: parse_line(line)) * 1000:.0f} µs")


if __name__ == "__main__":
    main()
