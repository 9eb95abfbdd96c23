"""The comparison as a table, and as one object. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from natstui.bench.result.compare import difference, median_interval
from natstui.bench.versus.measure import ClientName, Compared, Figures
from natstui.clean import clean_line
from natstui.units import UNKNOWN, rate_text

_RIVALS: tuple[ClientName, ...] = ("nats bench", "nats-py")


def ratio_of(one: Compared, rival: ClientName) -> tuple[float, float | None, float | None] | None:
    """Return natstui's median over a rival's, with its 95 % interval from two rounds on."""
    ours, theirs = one.figures.get("natstui"), one.figures.get(rival)
    if ours is None or theirs is None:
        return None
    found = difference("publish_rate", np.array(theirs.rates_per_s), np.array(ours.rates_per_s))
    low, high = found.low_ratio, found.high_ratio
    return (
        1 + found.change_ratio,
        None if low is None else 1 + low,
        None if high is None else 1 + high,
    )


def mean_ratio(compared: Sequence[Compared], rival: ClientName) -> float | None:
    """Return the geometric mean of the ratios; None without any."""
    found = [ratio[0] for one in compared if (ratio := ratio_of(one, rival)) is not None]
    return float(np.exp(np.mean(np.log(found)))) if found else None


def table_text(compared: Sequence[Compared]) -> str:
    """Return the table for people: a line for each client of each row."""
    return "\n".join(_lines(compared))


_NAME_CELLS = 22
_HEAD = ("pattern", "client", "msgs/s", "95 %", "natstui is", "95 %", "server CPU")


def _line(cells: Sequence[str]) -> str:
    widths = (-_NAME_CELLS, -11, 7, 13, 11, 12, 11)
    return "".join(
        cell.ljust(-width) if width < 0 else cell.rjust(width)
        for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def _lines(compared: Sequence[Compared]) -> Iterator[str]:
    yield _line(_HEAD)
    for one in compared:
        name = one.row.name
        for client in ("natstui", "nats-py", "nats bench"):
            figures = one.figures.get(client)
            if figures is not None:
                yield _line((name, client, *_cells(one, client, figures)))
                name = ""
        for who, error in one.errors.items():
            yield f"{name.ljust(_NAME_CELLS)}{who}: {clean_line(error)}"
            name = ""
    for rival in _RIVALS:
        mean = mean_ratio(compared, rival)
        if mean is not None:
            yield f"geometric mean of the ratios to {rival}: {mean:.2f}"


def _cells(one: Compared, client: ClientName, figures: Figures) -> tuple[str, ...]:
    rates = np.array(figures.rates_per_s)
    interval = _span(median_interval(rates), rate_text)
    ratio = None if client == "natstui" else ratio_of(one, client)
    cpu = figures.server_cpu_ratios
    return (
        rate_text(float(np.median(rates))),
        interval,
        "" if ratio is None else f"{_times(ratio[0])}×",
        "" if ratio is None else _span(ratio[1:], lambda end: _times(end or 0.0)),
        f"{np.median(cpu):.0%}" if cpu else UNKNOWN,
    )


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _span(ends: tuple[float | None, float | None], text: Any) -> str:
    low, high = ends
    return "" if low is None or high is None else f"{text(low)}–{text(high)}"


def objects(compared: Sequence[Compared]) -> list[dict[str, Any]]:
    """Return the rows for `--json`."""
    return [
        {
            "pattern": one.row.name,
            "clients": {
                client: {
                    "rate_per_s": float(np.median(figures.rates_per_s)),
                    "rate_interval_per_s": median_interval(np.array(figures.rates_per_s)),
                    "rates_per_s": figures.rates_per_s,
                    "server_cpu_ratio": float(np.median(figures.server_cpu_ratios))
                    if figures.server_cpu_ratios
                    else None,
                }
                for client, figures in one.figures.items()
            },
            "natstui_to": {
                rival: ratio for rival in _RIVALS if (ratio := ratio_of(one, rival)) is not None
            },
            "errors": one.errors,
        }
        for one in compared
    ]
