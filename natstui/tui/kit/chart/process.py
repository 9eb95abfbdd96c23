"""The drawing process: frames come in as lines of JSON, charts drawn by plotext go out.

A process of its own keeps a chart's 20 to 100 ms away from the keys. It ends with its stdin.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import plotext

from natstui.output import write_all
from natstui.tui.kit.chart.frame import AXES_ROLE, EVENT_MARK, EVENT_ROLE, MARKERS


def draw(frame: dict[str, Any]) -> str:
    """Return a chart as lines of text with palette numbers for colours."""
    plotext.clf()
    plotext.limitsize(False, False)
    plotext.plotsize(frame["width"], frame["height"])
    plotext.canvas_color("default")
    plotext.axes_color("default")
    plotext.ticks_color(AXES_ROLE)
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    plotext.xlim(-frame["window_s"], 0)
    y_ticks, x_ticks = frame["y_ticks"], frame["x_ticks"]
    plotext.ylim(y_ticks[0][0], y_ticks[-1][0])
    plotext.xticks([at for at, _ in x_ticks], [label for _, label in x_ticks])
    plotext.yticks([at for at, _ in y_ticks], [label for _, label in y_ticks])
    for index, line in enumerate(frame["lines"]):
        _line(line, index % len(MARKERS))
    if events := frame["events_at_s"]:
        top = [y_ticks[-1][0]] * len(events)
        plotext.scatter(events, top, marker=EVENT_MARK, color=EVENT_ROLE)
    built: str = plotext.build()
    return built


def _line(runs: list[list[list[float]]], number: int) -> None:
    """Draw the parts of one line, and its marker at every so many points."""
    for xs, ys in runs:
        plotext.plot(xs, ys, marker="braille", color=number + 1)
    if MARKERS[number]:
        points = [point for xs, ys in runs for point in zip(xs, ys, strict=True)]
        marked = points[number * 3 :: max(1, len(points) // 8)] or points[-1:]
        if marked:
            at, heights = zip(*marked, strict=True)
            plotext.scatter(at, heights, marker=MARKERS[number], color=number + 1)


def main() -> None:
    """Answer each frame with one line until stdin ends."""
    # The terminal sends Ctrl-C to everyone; who asked for the charts decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        frame = json.loads(line)
        answer = {"id": frame["id"], "text": draw(frame)}
        write_all(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
