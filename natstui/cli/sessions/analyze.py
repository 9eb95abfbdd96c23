"""`natstui analyze`: analyses recorded sessions with Spark; results as text, JSON or a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from natstui.analysis.defaults import BUCKET_S, MEMORY, ROWS_COUNT
from natstui.analysis.launch import STARTING, AnalysisRequest, run_job
from natstui.analysis.report.heading import heading
from natstui.analysis.report.sections import (
    Shown,
    damaged_sessions,
    only_bucket,
    sections,
    series,
)
from natstui.clean import clean_json, clean_line
from natstui.cli.complete import recordings
from natstui.cli.options import WrittenPath
from natstui.cli.sections import command
from natstui.cli.sessions.options import library
from natstui.cli.text_table import Column, stdout_width, table
from natstui.errors import AnalysisError, DamagedSession
from natstui.files import check_replaceable, write_complete, writing
from natstui.model.findings.thresholds import STUCK_AFTER_S
from natstui.units import UNKNOWN

if TYPE_CHECKING:
    from natstui.cli.sessions.first_page import FirstPage

ROWS_SHOWN = 12
_CHART_ROWS = 10
_WIDEST_CELLS = 160
_SESSIONS_DRAWN = 3
_LINES = (("published/s", "published_per_s"), ("delivered/s", "delivered_per_s"))


def report_lines(result: dict[str, Any], width_cells: int | None) -> list[str]:
    """Return the whole report; None for a width is that of a pipe."""
    lines: list[str] = []
    for number, one in enumerate(sections(result)):
        lines += ["", one.section.title.upper()]
        if one.table == "verdict" and one.rows:
            lines += _verdict(one, min(width_cells or 100, _WIDEST_CELLS))
        else:
            lines += _table(one, width_cells) if one.rows else [one.section.empty]
        if number == 0:
            lines += _about(result)
            lines += _charts(result, min(width_cells or 100, _WIDEST_CELLS))
    return [*lines, "", f"Tables: {clean_line(result['out'])}/gold (DICTIONARY.md explains them)"]


def _verdict(one: Shown, width_cells: int) -> list[str]:
    """Return each finding as a paragraph: in a table its evidence would be cut first."""
    lines = []
    for row in one.rows:
        said = dict(zip(one.titles, row, strict=True))
        rank = f"{said['rank']:>2}  "
        details = (said["evidence"], said["start"], said.get("session", ""))
        kept = "  ·  ".join(text for text in details if text not in ("", UNKNOWN))
        code = "" if said["code"] == UNKNOWN else f" {said['code']}"
        head = f"[{said['harm']}{code}] {said['subject']}: {said['sentence']}"
        advice = "" if said["advice"] == UNKNOWN else f"→ {said['advice']}"
        wrapped = [
            line for told in (head, kept, advice) for line in wrap(told, width_cells - len(rank))
        ]
        lines += [(rank if place == 0 else " " * len(rank)) + text
                  for place, text in enumerate(wrapped)]  # fmt: skip
    return lines


def _table(one: Shown, width_cells: int | None) -> list[str]:
    columns = [
        Column(title, numeric, drop_order=place if numeric else 0, shrinks=not numeric)
        for place, (title, numeric) in enumerate(zip(one.titles, one.numeric, strict=True))
    ]
    lines = table(columns, one.rows[:ROWS_SHOWN], width_cells)
    left = len(one.rows) - ROWS_SHOWN
    if left > 0 or one.cut:
        lines.append(f"… {'at least ' if one.cut else ''}{max(left, 1)} more in the tables")
    return lines


def _about(result: dict[str, Any]) -> list[str]:
    """Return what is known of each session that is drawn: system, time, what is missing."""
    lines: list[str] = []
    for session in result["sessions"][:_SESSIONS_DRAWN]:
        facts = heading(result, session)
        if facts:
            lines += ["", f"ABOUT {clean_line(session)}"]
            lines += [f"{name + ':':<14}{words}" for name, words in facts]
    return lines


def _charts(result: dict[str, Any], width_cells: int) -> list[str]:
    lines: list[str] = []
    for session in result["sessions"][:_SESSIONS_DRAWN]:
        alone = only_bucket(result, session, _LINES)
        drawn = [alone] if alone else _chart(result, session, width_cells)
        if drawn:
            lines += ["", f"LOAD OF {clean_line(session)}", *drawn]
    return lines


def _chart(result: dict[str, Any], session: str, width_cells: int) -> list[str]:
    """Return a chart of a session's load; nothing where none is known."""
    import plotext

    plotext.terminal.limit(False, False)
    figure, drawn = plotext.figure, False
    figure.clear.all()
    figure.plot_size(width_cells, _CHART_ROWS)
    for label, column in _LINES:
        ats, values = series(result, session, column)
        points = [(at, v) for at, v in zip(ats, values, strict=True) if v is not None]
        if points:
            minutes = [(at - ats[0]) / 60e6 for at, _ in points]
            line = figure.signal(minutes, [v for _, v in points], marker="braille").lines()
            figure.draw(line.label(label))
            drawn = True
    figure.label("minutes", axis="x", side="lower")
    return figure.build().string(colorless=True).splitlines() if drawn else []


INTERRUPTED = 130


def _cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("natstui")


def _found(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what was named: a path, glob or URL as it is, else a session of the library."""
    if all(map(_is_place, words)):
        # The settings, which say where the library is, take longer to read than a known result.
        return words
    from natstui.session.library import find

    folder = library(None, None)
    return tuple(word if _is_place(word) else str(find(folder, word)) for word in words)


def _is_place(word: str) -> bool:
    return Path(word).exists() or any(mark in word for mark in "/*?[")


@command()
@click.argument(
    "sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=recordings
)
@click.option(
    "--out",
    metavar="TEXT",
    type=WrittenPath(),
    help="Folder or URL of the tables; they are kept, so the next run is quicker.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--html", "page_file", type=WrittenPath(Path), help="Write a report page.")
@click.option(
    "--notebook",
    "notebook_file",
    type=WrittenPath(Path),
    help="Write a Jupyter notebook that loads the tables and draws the main pictures.",
)
@click.option("--baseline", multiple=True, metavar="NAME", help="Session to compare others with.")
@click.option(
    "--bucket",
    "bucket_s",
    type=click.IntRange(1, 86_400),
    default=BUCKET_S,
    help="Length of the intervals of the rates, in seconds.",
)
@click.option(
    "--stuck-after",
    "stuck_after_s",
    type=click.FloatRange(1, 365 * 86_400),
    default=STUCK_AFTER_S,
    help="Seconds without progress until a consumer counts as stuck.",
)
@click.option(
    "--rows",
    "rows_count",
    type=click.IntRange(1, 100_000),
    default=ROWS_COUNT,
    help="Rows of each table in --json and --html.",
)
@click.option("--master", help="Spark master: local[2], spark://host:7077, yarn, k8s://…")
@click.option("--remote", help="Spark Connect server: sc://host:15002; needs the extra `connect`.")
@click.option("--memory", default=MEMORY, help="Memory of Spark's driver and executors.")
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of Spark: spark.hadoop.fs.s3a.endpoint=… Other users of this machine can read "
    "it: no secrets.",
)
@click.option(
    "--packages",
    multiple=True,
    metavar="GROUP:ARTIFACT:VERSION",
    help="Maven packages for Spark to download, as for s3a:// or a table format.",
)
@click.option("--jars", multiple=True, metavar="FILE", help="Jar files for Spark to load.")
@click.option(
    "--scratch", metavar="TEXT", type=WrittenPath(), help="Folder for temporary data of Spark."
)
@click.option("--log", metavar="TEXT", type=WrittenPath(), help="File for the log of Spark.")
@click.option("--ui", is_flag=True, help="Open Spark's own web page while it runs.")
@click.pass_context
def analyze(
    ctx: click.Context,
    /,
    sessions: tuple[str, ...],
    out: str | None,
    as_json: bool,
    page_file: Path | None,
    notebook_file: Path | None,
    **options: Any,
) -> None:
    """Analyse recordings with Spark.

    SESSION is a folder, a glob, a URL, or the name of a recording.

    Shows where consumers lagged, what was stuck and why, what was redelivered, the load of the
    server, and which streams and consumers became slower than in the earliest session of the same
    server and account, or those of --baseline. Exit code 6: some data of a session could not be
    read; the rest was analysed.
    """
    # Checked before minutes of work, not after them.
    _check_files(page_file, notebook_file)
    request = AnalysisRequest(_found(sessions), out or str(_cache() / "analysis"), **options)
    show = _Bar(sys.stderr.isatty())
    page: FirstPage | None = None

    def progress(sent: dict[str, Any]) -> None:
        """Show progress, and what the recordings themselves say while Spark starts."""
        nonlocal page
        show.update(sent)
        if page is None and sent["text"] == STARTING:
            from natstui.cli.sessions.first_page import FirstPage

            page = FirstPage(request.sessions)
            show.clear()
            for line in page.lines():
                click.echo(line, err=True)

    try:
        result = run_job(request, progress)
    except KeyboardInterrupt:
        show.clear()
        click.echo("natstui: cancelled", err=True)
        ctx.exit(INTERRUPTED)
    finally:
        show.clear()
    for line in page.contradicted(result) if page else ():
        click.echo(line, err=True)
    _write_files(page_file, notebook_file, result)
    if as_json:
        click.echo(clean_json(json.dumps(result, ensure_ascii=False)))
    else:
        click.echo("\n".join(report_lines(result, stdout_width())))
    damaged = damaged_sessions(result)
    if damaged:
        raise DamagedSession(", ".join(damaged), "only the readable part was analysed")


def _check_files(page_file: Path | None, notebook_file: Path | None) -> None:
    for file in (page_file, notebook_file):
        if file and not file.absolute().parent.is_dir():
            raise AnalysisError(f"cannot write {file}: its folder does not exist")
        if file:
            with writing(file, AnalysisError):
                check_replaceable(file, replaces=True)
    # A page is only read; into a notebook people write.
    if notebook_file and notebook_file.exists():
        raise AnalysisError(f"{notebook_file} exists already, perhaps with your own cells")


def _write_files(
    page_file: Path | None, notebook_file: Path | None, result: dict[str, Any]
) -> None:
    if page_file:
        from natstui.analysis.report.page import page

        _write(page_file, page(result))
    if notebook_file:
        from natstui.analysis.report.notebook import notebook_text

        _write(notebook_file, notebook_text(result))


def _write(file: Path, text: str) -> None:
    """Write a file that appears complete; raises AnalysisError and WriteFailed."""
    with writing(file, AnalysisError):
        write_complete(file, text.encode())
    click.echo(f"natstui: wrote {file}", err=True)


class _Bar:
    """One line of progress on a terminal, one line per step elsewhere."""

    _WIDTH = 24

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._text = ""

    def update(self, progress: dict[str, Any]) -> None:
        """Show the progress of the job."""
        text = str(progress["text"])
        if not self._terminal:
            if text != self._text:
                click.echo(f"natstui: {text}", err=True)
            self._text = text
            return
        self._text = text
        steps_count = max(progress["steps_count"], 1)
        share = progress["done_count"] / steps_count
        if progress["tasks_count"]:
            share += progress["tasks_done_count"] / progress["tasks_count"] / steps_count
        filled = round(min(share, 1.0) * self._WIDTH)
        bar = "█" * filled + "░" * (self._WIDTH - filled)
        click.echo(f"\r\x1b[2K{bar} {share * 100:3.0f} %  {text}", err=True, nl=False)

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._terminal and self._text:
            click.echo("\r\x1b[2K", err=True, nl=False)
