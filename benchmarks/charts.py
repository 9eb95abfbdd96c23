"""What a chart costs the viewer: one point a column, plotext, and reading its cells."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

from natstui.tui.kit.chart.frame import ChartData, Series, plot_frame
from natstui.tui.kit.chart.plot import draw
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


def report(width: int, height: int, points: int, lines: int, *, noisy: bool) -> None:
    """Print the costs of one size."""
    chart = data(points, lines, noisy=noisy)
    frame = plot_frame(chart, width, height)
    thinning_ms = cpu_ms(lambda: plot_frame(chart, width, height))
    drawing_ms = cpu_ms(lambda: draw(frame))
    kind = "noise" if noisy else "waves"
    print(
        f"{width:3}×{height:<3} {lines} × {points:4} {kind}: {thinning_ms + drawing_ms:5.1f} ms"
        f"   to a point a column {thinning_ms:4.1f} ms   plotext and cells {drawing_ms:5.1f} ms"
    )


def main() -> None:
    """Print charts of usual sizes, and sparklines."""
    sizes = ((53, 14, 120, 2), (80, 20, 300, 2), (120, 30, 900, 4), (200, 60, 900, 4))
    for width, height, points, lines in sizes:
        for noisy in (False, True):
            report(width, height, points, lines, noisy=noisy)
    values = [random.random() * 100 for _ in range(1200)]
    spark_ms = cpu_ms(lambda: sparkline(values[:16], 12))
    print(f"sparkline of 16 values in 12 cells: {spark_ms * 1000:.0f} µs")


if __name__ == "__main__":
    main()
