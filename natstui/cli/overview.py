"""`natstui overview`: the first screen of the viewer, printed once."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from natstui.clean import clean_line
from natstui.cli.options import ConnectionFlags, parse_seconds, watching_flags
from natstui.cli.sections import command
from natstui.errors import RequestFailed

if TYPE_CHECKING:
    from natstui.cli.health.look import ServerReading
    from natstui.model.live.state import State
    from natstui.tui.kit.table.rows import Cell
    from natstui.tui.overview.layout import Place
    from natstui.tui.overview.panels import Panel, PanelId

_ANSI: Mapping[str, str] = {
    "ok": "32", "warn": "33", "strong warn": "1;33", "bad": "1;31", "error": "31", "dim": "2",
    "stale": "2;3", "accent": "36", "primary": "36", "strong": "1", "title": "1;36",
}  # fmt: skip
"""How a terminal writes each look, in its own colours."""
_PIPE_SIZE = (120, 40)
_MOST_ROWS = 20


@command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--for", "for_text", metavar="TIME",
    help="How long to watch. Default: until everything was read three times, at most 15s.",
)  # fmt: skip
@watching_flags
def overview(flags: ConnectionFlags, as_json: bool, for_text: str | None) -> None:
    """Print one screen: what is wrong, what moves.

    Prints leaders, too. Exit code: 0 even if something is wrong (use `natstui health` for that), 4
    if not everything could be read. With --context A,B,C it shows several systems.
    """
    from natstui.cli.watch.run import left_out_text

    for_s = None if for_text is None else parse_seconds(for_text, "--for")
    named = flags.each() if flags.are_several else {"": flags}
    watched = asyncio.run(_watch(named, for_s))
    unread = {
        name: [text for text in (left_out_text(one.state), one.problem) if text is not None]
        for name, one in watched.items()
    }
    for name, texts in unread.items():
        for text in texts:
            click.echo(clean_line(f"natstui: {f'{name}: ' if name else ''}{text}"), err=True)
    states = {name: one.state for name, one in watched.items()}
    if as_json:
        facts = [_facts(name, state) for name, state in states.items()]
        click.echo(json.dumps(facts if len(facts) > 1 else facts[0]))
    else:
        coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        click.echo("\n".join(_page(states, coloured=coloured)), color=coloured)
    if any(unread.values()):
        sys.exit(RequestFailed.exit_code)


async def _watch(
    named: Mapping[str, ConnectionFlags], for_s: float | None
) -> dict[str, ServerReading]:
    """Watch every system at the same time."""
    from natstui.cli.health.look import look_at

    async def one(flags: ConnectionFlags) -> ServerReading:
        settings, connection = flags.resolve()
        monitor = settings.monitor
        return await look_at(connection, monitor.interval_s, for_s, monitor.max_requests_per_s)

    found = await asyncio.gather(*map(one, named.values()))
    return dict(zip(named, found, strict=True))


def _page(states: Mapping[str, State], *, coloured: bool) -> list[str]:
    """Return the lines of the overview, as wide and as high as the terminal."""
    from natstui.tui.frame.systems import SystemState
    from natstui.tui.overview.layout import subtitle_of
    from natstui.tui.overview.panels import panels
    from natstui.tui.overview.vitals import vitals

    width, height = _size()
    systems = [SystemState(name, "", state, 0) for name, state in states.items()]
    found = {panel.id: panel for panel in panels(systems)}
    counts = {id: len(panel.rows.order) for id, panel in found.items()}
    bands = bands_of_page(width, height, counts)
    places = {place.id: place for band in bands for place in band}
    subtitles = subtitle_of(places, found["servers"], systems)
    lines = [_written(vitals(systems, width), coloured=coloured, gap="  ")]
    for band in bands:
        sides = [
            _panel(found[place.id], place, subtitles.get(place.id, ""), coloured=coloured)
            for place in band
        ]
        lines += ["".join(parts) for parts in zip(*sides, strict=True)]
    return lines


def bands_of_page(width: int, height: int, counts: Mapping[PanelId, int]) -> list[list[Place]]:
    """Return the panels beside and below one another, in a terminal of this size."""
    from natstui.tui.overview.layout import arrange

    # The line of figures above, and the prompt of the shell below.
    bands = arrange(width, height - 2, counts)
    # Nothing grows here any more: events take the lines that there are.
    (*_, last) = bands
    if [place.id for place in last] == ["events"]:
        last[:] = [last[0]._replace(height=min(last[0].height, 2 + max(1, counts["events"])))]
    return bands


def _size() -> tuple[int, int]:
    """Return the columns and lines of the terminal; of a pipe those that a page has."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        width, height = shutil.get_terminal_size()
        return max(width, 60), max(height, 20)
    return _PIPE_SIZE


def _panel(panel: Panel, place: Place, subtitle: str, *, coloured: bool) -> list[str]:
    """Return a panel's lines, each as wide as its place."""
    from rich.cells import cell_len

    from natstui.tui.frame.table_screen import table_columns
    from natstui.tui.kit.table.rows import Cell
    from natstui.tui.kit.table.widths import place as place_columns
    from natstui.tui.kit.text import fit
    from natstui.tui.overview.panels import UNTITLED

    edge = 2 if place.framed else 0
    inner, rows_count = place.width - edge, place.height - edge
    shown = panel.fitted(inner)
    layout = place_columns(table_columns(shown.rows.specs), inner)
    grid: list[Sequence[Cell]] = [shown.rows.cells(row) for row in shown.rows.order]
    if panel.id not in UNTITLED:
        grid.insert(0, [Cell(spec.title, "strong") for spec in shown.rows.specs])
    lines = []
    for cells in grid[:rows_count]:
        text = [Cell(" ")]
        for placed in layout.placed:
            cell = cells[placed.index]
            fitted = fit(cell.text, placed.width, placed.column.align)
            text += [cell._replace(text=fitted), Cell(" " * layout.gap)]
        lines.append(_written(text, coloured=coloured, width=inner))
    if not shown.rows.order and len(lines) < rows_count:
        look = "ok" if panel.id == "wrong" else "dim"
        lines.append(_written([Cell(f" {shown.empty}", look)], coloured=coloured, width=inner))
    lines += [" " * inner] * (rows_count - len(lines))
    if not place.framed:
        return lines
    look = "bad" if panel.id == "wrong" and shown.rows.order else "title"
    title_text = f" {shown.title(place.rows_count)} "
    title = _written([Cell(title_text, look)], coloured=coloured, width=inner - 1, fill="─")
    below = f" {subtitle} ─" if subtitle else ""
    line = "─" * max(0, inner - cell_len(below))
    return [
        f"╭─{title}╮",
        *(f"│{row}│" for row in lines),
        f"╰{line}{_written([Cell(below)], coloured=False, width=inner - len(line), fill='─')}╯",
    ]


def _written(
    cells: Sequence[Cell],
    *,
    coloured: bool,
    gap: str = "",
    width: int | None = None,
    fill: str = " ",
) -> str:
    """Return cells as text, `width` wide and filled up, in colour where that is wanted."""
    from rich.cells import cell_len, set_cell_size

    parts, left = [], width
    for cell in cells:
        head, tail = cell.text, ""
        if cell.tail_from:
            head, tail = cell.text[: cell.tail_from], cell.text[cell.tail_from :]
        for text, look in ((head, cell.look), (tail, cell.tail_look)):
            if left is not None:
                text = set_cell_size(text, min(left, cell_len(text)))
                left -= cell_len(text)
            code = _ANSI.get(look, "")
            parts.append(f"\x1b[{code}m{text}\x1b[0m" if coloured and code and text else text)
        parts.append(gap)
    return "".join(parts) + fill * (left or 0)


def _facts(name: str, state: State) -> dict[str, object]:
    """Return what the overview shows as JSON, with units in the names."""
    from natstui.model.live import totals
    from natstui.model.live.rates import trend_column
    from natstui.tui.findings.cells import entity_text
    from natstui.tui.frame.head.status_text import open_counts
    from natstui.tui.overview.panels import server_view

    storage = totals.storage_use(state)
    streams, consumers = state.streams.columns, state.consumers.columns
    rates = trend_column(state.stream_history, "last_seq")
    servers = server_view(state)
    counts = open_counts([state])
    serious = [it for it in state.findings.open() if it.kind.severity != "info"]
    facts: dict[str, object] = {"system": name} if name else {}
    return facts | {
        "at_us": state.now_at_us,
        "critical_count": counts["critical"],
        "warning_count": counts["warning"],
        "in_msgs_per_s": totals.stored_per_s(state).now,
        "delivered_msgs_per_s": totals.delivered_per_s(state).now,
        "pending_msgs": totals.pending_msgs(state).now,
        "storage_used_bytes": storage.used_bytes if storage else None,
        "storage_max_bytes": storage.max_bytes if storage else None,
        "wrong": [
            {
                "severity": it.kind.severity,
                "code": it.kind.code,
                "about": entity_text(it.entity),
                "what": it.kind.word,
                "text": it.text,
                "since_us": it.since_us,
                "advice": it.act,
            }
            for it in serious
        ],
        "servers": [
            {
                "name": one.name,
                "down_s": servers.at(row).down_s,
                "meta": servers.at(row).role,
                "version": one.version,
                "cpu_percent": one.cpu_percent,
                "memory_bytes": one.memory_bytes,
                "streams_led_count": servers.at(row).streams_led_count,
            }
            for row, one in enumerate(servers.things)
        ],
        "busiest_streams": [
            {
                "name": streams.name[row],
                "in_msgs_per_s": rates[row] if row < len(rates) else None,
                "stored_msgs": streams.stored_msgs[row],
                "leader": streams.leader[row],
            }
            for row in totals.busiest_streams(state, _MOST_ROWS)
        ],
        "lagging_consumers": [
            {
                "stream": consumers.stream[row],
                "name": consumers.name[row],
                "pending_msgs": consumers.pending_msgs[row],
            }
            for row in totals.lagging_consumers(state, _MOST_ROWS)
        ],
    }
