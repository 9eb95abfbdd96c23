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

from natstui.cli.options import ConnectionFlags, parse_seconds, several_accounts_flags
from natstui.cli.sections import command
from natstui.cli.terminal_line import print_stderr
from natstui.errors import RequestFailed
from natstui.model.columns.column import json_values
from natstui.model.columns.findings import FINDING_COLUMNS, FindingRow

if TYPE_CHECKING:
    from natstui.cli.health.reading import ServerReading
    from natstui.model.live.state import State
    from natstui.tui.kit.table.rows import Cell
    from natstui.tui.overview.layout import PanelSize
    from natstui.tui.overview.panels import Panel, PanelId

_ANSI_CODE_BY_STYLE: Mapping[str, str] = {
    "ok": "32", "warn": "33", "strong warn": "1;33", "bad": "1;31", "error": "31", "dim": "2",
    "stale": "2;3", "accent": "36", "primary": "36", "strong": "1", "title": "1;36",
}  # fmt: skip
"""Look → its ANSI codes, in the terminal's own colours."""
_PIPE_SIZE_CELLS = (120, 40)
_MAX_JSON_ROWS = 20


@command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--for", "for_text", metavar="TIME",
    help="How long to watch. Default: until everything was read three times, at most 15s.",
)  # fmt: skip
@several_accounts_flags
def overview(flags: ConnectionFlags, as_json: bool, for_text: str | None) -> None:
    """Print one screen: what is wrong, what moves.

    Prints leaders, too. Exit code: 0 even if something is wrong (use `natstui health` for that), 4
    if not everything could be read, or nothing of [system] or monitoring ports that are set. With
    --context A,B,C it shows several systems.
    """
    from natstui.cli.watch.run import unreachable_text

    for_s = None if for_text is None else parse_seconds(for_text, "--for")
    flags_by_name = flags.flags_by_system() if flags.names_several_systems else {"": flags}
    readings = asyncio.run(_read_systems(flags_by_name, for_s))
    unread_texts = {
        name: [
            text
            for text in (unreachable_text(reading.state), reading.problem, servers_unread_text)
            if text is not None
        ]
        for name, (reading, servers_unread_text) in readings.items()
    }
    for name, texts in unread_texts.items():
        for text in texts:
            print_stderr(f"{f'{name}: ' if name else ''}{text}")
    states = {name: reading.state for name, (reading, _) in readings.items()}
    if as_json:
        overviews = [_overview_json(name, state) for name, state in states.items()]
        click.echo(json.dumps(overviews if len(overviews) > 1 else overviews[0]))
    else:
        is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        click.echo("\n".join(_page_lines(states, is_coloured=is_coloured)), color=is_coloured)
    if any(unread_texts.values()):
        sys.exit(RequestFailed.exit_code)


async def _read_systems(
    flags_by_name: Mapping[str, ConnectionFlags], for_s: float | None
) -> dict[str, tuple[ServerReading, str | None]]:
    """Watch all systems in parallel; return by name what was read, and a sentence if the servers
    could not be read, else None.
    """
    from natstui.cli.health.reading import read_server_state
    from natstui.cli.servers import unread_source_text

    async def read_system(flags: ConnectionFlags) -> tuple[ServerReading, str | None]:
        """Return what was read of a system, and a sentence if its servers could not be read."""
        settings, connection = flags.resolve()
        monitor = settings.monitor
        reading = await read_server_state(
            connection, monitor.interval_s, for_s, monitor.max_requests_per_s
        )
        return reading, unread_source_text(connection, reading.state.servers.newest)

    results = await asyncio.gather(*map(read_system, flags_by_name.values()))
    return dict(zip(flags_by_name, results, strict=True))


def _page_lines(states: Mapping[str, State], *, is_coloured: bool) -> list[str]:
    """Return the lines of the overview, as wide and as high as the terminal."""
    from natstui.tui.frame.systems import SystemState
    from natstui.tui.overview.layout import find_subtitles
    from natstui.tui.overview.panels import panels
    from natstui.tui.overview.vitals import vitals

    width, height = _terminal_size()
    systems = [SystemState(name, "", state, 0) for name, state in states.items()]
    panel_by_id = {panel.id: panel for panel in panels(systems)}
    rows_count_by_panel_id = {
        panel_id: len(panel.rows.order) for panel_id, panel in panel_by_id.items()
    }
    bands = bands_of_page(width, height, rows_count_by_panel_id)
    position_by_panel_id = {
        panel_position.id: panel_position for band in bands for panel_position in band
    }
    subtitle_by_panel_id = find_subtitles(position_by_panel_id, panel_by_id["servers"], systems)
    lines = [_format_cells(vitals(systems, width), is_coloured=is_coloured, gap="  ")]
    for band in bands:
        panel_lines = [
            _panel_lines(
                panel_by_id[panel_position.id],
                panel_position,
                subtitle_by_panel_id.get(panel_position.id, ""),
                is_coloured=is_coloured,
            )
            for panel_position in band
        ]
        lines += ["".join(parts) for parts in zip(*panel_lines, strict=True)]
    return lines


def bands_of_page(
    width: int, height: int, rows_count_by_panel_id: Mapping[PanelId, int]
) -> list[list[PanelSize]]:
    """Return the positions of the panels, a list for each band from top to bottom.

    `width` and `height` are the columns and lines of the terminal. A last band that has only the
    events is not higher than the events need.
    """
    from natstui.tui.overview.layout import arrange_panels

    # The line of figures above, and the prompt of the shell below.
    bands = arrange_panels(width, height - 2, rows_count_by_panel_id)
    # Nothing grows here any more: events take the lines that there are.
    (*_, last_band) = bands
    if [panel_position.id for panel_position in last_band] == ["events"]:
        last_band[:] = [
            last_band[0]._replace(
                height=min(last_band[0].height, 2 + max(1, rows_count_by_panel_id["events"]))
            )
        ]
    return bands


def _terminal_size() -> tuple[int, int]:
    """Return the columns and lines of the terminal; a standard size for a pipe."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        width, height = shutil.get_terminal_size()
        return max(width, 60), max(height, 20)
    return _PIPE_SIZE_CELLS


def _panel_lines(
    panel: Panel, panel_position: PanelSize, subtitle: str, *, is_coloured: bool
) -> list[str]:
    """Return the lines of a panel, each as wide as its position."""
    from rich.cells import cell_len

    from natstui.tui.frame.table_screen import table_columns
    from natstui.tui.kit.table.rows import Cell
    from natstui.tui.kit.table.widths import compute_layout
    from natstui.tui.kit.text import fit
    from natstui.tui.overview.panels import UNTITLED_PANELS

    edge_cells = 2 if panel_position.is_framed else 0
    width, rows_count = panel_position.width - edge_cells, panel_position.height - edge_cells
    fitted_panel = panel.fit_columns(width)
    layout = compute_layout(table_columns(fitted_panel.rows.specs), width)
    grid: list[Sequence[Cell]] = [fitted_panel.rows.cells(row) for row in fitted_panel.rows.order]
    if panel.id not in UNTITLED_PANELS:
        grid.insert(
            0, [Cell(column_spec.title, "strong") for column_spec in fitted_panel.rows.specs]
        )
    lines = []
    for cells in grid[:rows_count]:
        text = [Cell(" ")]
        for column in layout.columns:
            cell = cells[column.index]
            fitted_text = fit(cell.text, column.width, column.column.align)
            text += [cell._replace(text=fitted_text), Cell(" " * layout.gap)]
        lines.append(_format_cells(text, is_coloured=is_coloured, width=width))
    if not fitted_panel.rows.order and len(lines) < rows_count:
        style = "ok" if panel.id == "wrong" else "dim"
        lines.append(
            _format_cells(
                [Cell(f" {fitted_panel.empty}", style)], is_coloured=is_coloured, width=width
            )
        )
    lines += [" " * width] * (rows_count - len(lines))
    if not panel_position.is_framed:
        return lines
    style = "bad" if panel.id == "wrong" and fitted_panel.rows.order else "title"
    title_text = f" {fitted_panel.title(panel_position.rows_count)} "
    title = _format_cells(
        [Cell(title_text, style)], is_coloured=is_coloured, width=width - 1, fill="─"
    )
    subtitle_foot = f" {subtitle} ─" if subtitle else ""
    line = "─" * max(0, width - cell_len(subtitle_foot))
    foot_text = _format_cells(
        [Cell(subtitle_foot)], is_coloured=False, width=width - len(line), fill="─"
    )
    return [
        f"╭─{title}╮",
        *(f"│{row}│" for row in lines),
        f"╰{line}{foot_text}╯",
    ]


def _format_cells(
    cells: Sequence[Cell],
    *,
    is_coloured: bool,
    gap: str = "",
    width: int | None = None,
    fill: str = " ",
) -> str:
    """Return cells as text, padded to `width`, with ANSI colours if `is_coloured`."""
    from rich.cells import cell_len, set_cell_size

    parts, free_cells = [], width
    for cell in cells:
        main_text, tail_text = cell.text, ""
        if cell.second_style_start:
            main_text, tail_text = (
                cell.text[: cell.second_style_start],
                cell.text[cell.second_style_start :],
            )
        for text, style in ((main_text, cell.style_name), (tail_text, cell.second_style_name)):
            if free_cells is not None:
                text = set_cell_size(text, min(free_cells, cell_len(text)))
                free_cells -= cell_len(text)
            ansi_code = _ANSI_CODE_BY_STYLE.get(style, "")
            parts.append(
                f"\x1b[{ansi_code}m{text}\x1b[0m" if is_coloured and ansi_code and text else text
            )
        parts.append(gap)
    return "".join(parts) + fill * (free_cells or 0)


def _overview_json(name: str, state: State) -> dict[str, object]:
    """Return the overview of a system for JSON, with units in the names; `name` is empty for one
    system.
    """
    from natstui.model.live import totals
    from natstui.model.live.rates import trend_column
    from natstui.tui.frame.head.status_text import count_open_findings
    from natstui.tui.overview.panels import server_view

    storage = totals.storage_use(state)
    streams, consumers = state.streams.columns, state.consumers.columns
    rates = trend_column(state.stream_history, "last_seq")
    servers = server_view(state)
    counts = count_open_findings([state])
    serious_findings = [
        finding
        for finding in state.findings.list_open_findings()
        if finding.kind.severity != "info"
    ]
    fields: dict[str, object] = {"system": name} if name else {}
    return fields | {
        "at_us": state.now_at_us,
        "critical_count": counts["critical"],
        "warning_count": counts["warning"],
        "in_msgs_per_s": totals.stored_per_s(state).current_value,
        "delivered_msgs_per_s": totals.delivered_per_s(state).current_value,
        "pending_msgs": totals.pending_msgs(state).current_value,
        "storage_used_bytes": storage.used_bytes if storage else None,
        "storage_max_bytes": storage.max_bytes if storage else None,
        "wrong": [
            json_values(FINDING_COLUMNS, FindingRow(finding, state.now_at_us))
            for finding in serious_findings
        ],
        "servers": [
            {
                "name": server.name,
                "down_s": servers.at(row).down_s,
                "meta": servers.at(row).role,
                "version": server.version,
                "cpu_percent": server.cpu_percent,
                "memory_bytes": server.memory_bytes,
                "streams_led_count": servers.at(row).streams_led_count,
            }
            for row, server in enumerate(servers.items)
        ],
        "busiest_streams": [
            {
                "name": streams.name[row],
                "in_msgs_per_s": rates[row] if row < len(rates) else None,
                "stored_msgs": streams.stored_msgs[row],
                "leader": streams.leader[row],
            }
            for row in totals.busiest_streams(state, _MAX_JSON_ROWS)
        ],
        "lagging_consumers": [
            {
                "stream": consumers.stream[row],
                "name": consumers.name[row],
                "pending_msgs": consumers.pending_msgs[row],
            }
            for row in totals.lagging_consumers(state, _MAX_JSON_ROWS)
        ],
    }
