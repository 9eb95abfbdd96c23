"""`natstui analyze`: analyses recorded sessions with Spark; results as text, JSON or a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from natstui.analysis.defaults import BUCKET_S, MAX_TABLE_ROWS_COUNT, MEMORY
from natstui.analysis.launch import STARTING_SPARK, AnalysisRequest, run_job
from natstui.analysis.report.heading import session_facts
from natstui.analysis.report.sections import (
    SectionText,
    damaged_sessions,
    sections,
    series,
    single_bucket_text,
)
from natstui.clean import clean_json, clean_line
from natstui.cli.complete import complete_recordings
from natstui.cli.options import OutputPath
from natstui.cli.sections import command
from natstui.cli.sessions.first_page import RecordedFindings
from natstui.cli.sessions.options import library_folder
from natstui.cli.text_table import TextColumn, stdout_width, table
from natstui.errors import AnalysisError, DamagedSession
from natstui.files import check_replaceable, open_atomic_file, translate_write_errors
from natstui.model.findings.thresholds import STUCK_AFTER_SAME_ACK_FLOOR_S
from natstui.units import UNKNOWN

_MAX_SHOWN_ROWS = 12
_CHART_ROWS = 10
_MAX_WIDTH_CELLS = 160
_MAX_CHARTED_SESSIONS = 3
_RATE_SERIES = (("published/s", "published_per_s"), ("delivered/s", "delivered_per_s"))


def report_lines(result: dict[str, Any], width_cells: int | None) -> list[str]:
    """Return the report of an analysis as lines: each section with its table, and charts of the
    load.

    `result` is what `run_job` returns. `width_cells` is the width of the terminal; None for a
    pipe, which has no limit.
    """
    lines: list[str] = []
    for number, section in enumerate(sections(result)):
        lines += ["", section.section.title.upper()]
        if section.table == "verdict" and section.rows:
            lines += _verdict_lines(section, min(width_cells or 100, _MAX_WIDTH_CELLS))
        else:
            lines += (
                _table_lines(section, width_cells) if section.rows else [section.section.empty]
            )
        if number == 0:
            lines += _session_lines(result)
            lines += _chart_lines(result, min(width_cells or 100, _MAX_WIDTH_CELLS))
    return [*lines, "", f"Tables: {clean_line(result['out'])}/gold (DICTIONARY.md explains them)"]


def _verdict_lines(section: SectionText, width_cells: int) -> list[str]:
    """Return findings as lines, a paragraph each, because a table would cut their evidence."""
    lines = []
    for row in section.rows:
        values = dict(zip(section.titles, row, strict=True))
        rank_prefix = f"{values['rank']:>2}  "
        details = (values["evidence"], values["start"], values.get("session", ""))
        details_text = "  ·  ".join(text for text in details if text not in ("", UNKNOWN))
        code = "" if values["code"] == UNKNOWN else f" {values['code']}"
        heading = f"[{values['harm']}{code}] {values['subject']}: {values['sentence']}"
        advice = "" if values["advice"] == UNKNOWN else f"→ {values['advice']}"
        wrapped_lines = [
            line
            for paragraph in (heading, details_text, advice)
            for line in wrap(paragraph, width_cells - len(rank_prefix))
        ]
        lines += [(rank_prefix if index == 0 else " " * len(rank_prefix)) + text
                  for index, text in enumerate(wrapped_lines)]  # fmt: skip
    return lines


def _table_lines(section: SectionText, width_cells: int | None) -> list[str]:
    columns = [
        TextColumn(
            title, is_numeric, priority=index if is_numeric else 0, may_be_cut=not is_numeric
        )
        for index, (title, is_numeric) in enumerate(
            zip(section.titles, section.is_numeric_by_column, strict=True)
        )
    ]
    lines = table(columns, section.rows[:_MAX_SHOWN_ROWS], width_cells)
    more_count = len(section.rows) - _MAX_SHOWN_ROWS
    if more_count > 0 or section.has_more_rows:
        at_least_text = "at least " if section.has_more_rows else ""
        lines.append(f"… {at_least_text}{max(more_count, 1)} more in the tables")
    return lines


def _session_lines(result: dict[str, Any]) -> list[str]:
    """Return the details of each charted session as lines: system, time, missing data."""
    lines: list[str] = []
    for session in result["sessions"][:_MAX_CHARTED_SESSIONS]:
        details = session_facts(result, session)
        if details:
            lines += ["", f"ABOUT {clean_line(session)}"]
            lines += [f"{name + ':':<14}{text}" for name, text in details]
    return lines


def _chart_lines(result: dict[str, Any], width_cells: int) -> list[str]:
    lines: list[str] = []
    for session in result["sessions"][:_MAX_CHARTED_SESSIONS]:
        single_bucket_line = single_bucket_text(result, session, _RATE_SERIES)
        chart_lines = (
            [single_bucket_line]
            if single_bucket_line
            else _draw_chart(result, session, width_cells)
        )
        if chart_lines:
            lines += ["", f"LOAD OF {clean_line(session)}", *chart_lines]
    return lines


def _draw_chart(result: dict[str, Any], session: str, width_cells: int) -> list[str]:
    """Return a chart of the load of a session as lines; empty without data."""
    import plotext

    plotext.terminal.limit(False, False)
    figure, has_points = plotext.figure, False
    figure.clear.all()
    figure.plot_size(width_cells, _CHART_ROWS)
    for label, column in _RATE_SERIES:
        times_us, values = series(result, session, column)
        points = [
            (at_us, value)
            for at_us, value in zip(times_us, values, strict=True)
            if value is not None
        ]
        if points:
            minutes = [(at_us - times_us[0]) / 60e6 for at_us, _ in points]
            line = figure.signal(minutes, [value for _, value in points], marker="braille").lines()
            figure.draw(line.label(label))
            has_points = True
    figure.label("minutes", axis="x", side="lower")
    return figure.build().string(colorless=True).splitlines() if has_points else []


def _cache_folder() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("natstui")


def _find_sessions(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sessions of arguments: a path, glob or URL unchanged, a name as the folder of
    that session in the library.
    """
    if all(map(_is_path, arguments)):
        # The settings, which say where the library is, take longer to read than a known result.
        return arguments
    from natstui.session.library import find_session

    folder = library_folder(None, None)
    return tuple(
        argument if _is_path(argument) else str(find_session(folder, argument))
        for argument in arguments
    )


def _is_path(text: str) -> bool:
    return Path(text).exists() or any(wildcard in text for wildcard in "/*?[")


@command()
@click.argument(
    "sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=complete_recordings
)
@click.option(
    "--out",
    metavar="TEXT",
    type=OutputPath(),
    help="Folder or URL of the tables; they are kept, so the next run is quicker.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--html", "page_file", type=OutputPath(Path), help="Write a report page.")
@click.option(
    "--notebook",
    "notebook_file",
    type=OutputPath(Path),
    help="Write a Jupyter notebook that loads the tables and draws the main pictures.",
)
@click.option(
    "--force", "-f", is_flag=True,
    help="Overwrite existing files of --html and --notebook. A report page is always overwritten.",
)  # fmt: skip
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
    default=STUCK_AFTER_SAME_ACK_FLOOR_S,
    help="Seconds without progress until a consumer counts as stuck.",
)
@click.option(
    "--rows",
    "rows_count",
    type=click.IntRange(1, 100_000),
    default=MAX_TABLE_ROWS_COUNT,
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
    "--scratch", metavar="TEXT", type=OutputPath(), help="Folder for temporary data of Spark."
)
@click.option("--log", metavar="TEXT", type=OutputPath(), help="File for the log of Spark.")
@click.option("--ui", is_flag=True, help="Open Spark's own web page while it runs.")
def analyze(
    sessions: tuple[str, ...],
    out: str | None,
    as_json: bool,
    page_file: Path | None,
    notebook_file: Path | None,
    force: bool,
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
    _check_files(page_file, notebook_file, force=force)
    request = AnalysisRequest(
        _find_sessions(sessions), out or str(_cache_folder() / "analysis"), **options
    )
    progress_bar = _ProgressBar(sys.stderr.isatty())
    recorded_findings: RecordedFindings | None = None

    def show_progress(values: dict[str, Any]) -> None:
        """Show progress, and the findings of the recordings while Spark starts."""
        nonlocal recorded_findings
        progress_bar.update(values)
        if recorded_findings is None and values["text"] == STARTING_SPARK:
            recorded_findings = RecordedFindings(request.sessions)
            progress_bar.clear()
            for line in recorded_findings.lines():
                click.echo(line, err=True)

    try:
        result = run_job(request, show_progress)
    finally:
        progress_bar.clear()
    for line in recorded_findings.contradiction_lines(result) if recorded_findings else ():
        click.echo(line, err=True)
    _write_files(page_file, notebook_file, result, force=force)
    if as_json:
        click.echo(clean_json(json.dumps(result, ensure_ascii=False)))
    else:
        click.echo("\n".join(report_lines(result, stdout_width())))
    damaged_names = damaged_sessions(result)
    if damaged_names:
        raise DamagedSession(", ".join(damaged_names), "only the readable part was analysed")


def _check_files(page_file: Path | None, notebook_file: Path | None, *, force: bool) -> None:
    for file in (page_file, notebook_file):
        if file and not file.absolute().parent.is_dir():
            raise AnalysisError(f"cannot write {file}: its folder does not exist")
        if file:
            with translate_write_errors(file, AnalysisError):
                check_replaceable(file, replaces=True)
        if file and file.exists() and not (force or _is_own_page(file)):
            raise AnalysisError(
                f"{file} exists already, and is no report page of natstui: use --force, or name "
                "another file"
            )


def _is_own_page(file: Path) -> bool:
    """Return whether a file is a report page of natstui, which may be overwritten without
    `--force`.
    """
    from natstui.analysis.report.page import is_report_page

    return is_report_page(file)


def _write_files(
    page_file: Path | None, notebook_file: Path | None, result: dict[str, Any], *, force: bool
) -> None:
    if page_file:
        from natstui.analysis.report.page import page

        _write_file(page_file, page(result), force=force)
    if notebook_file:
        from natstui.analysis.report.notebook import notebook_text

        _write_file(notebook_file, notebook_text(result), force=force)


def _write_file(file: Path, text: str, *, force: bool) -> None:
    """Write a file atomically, and print its path.

    An existing file is replaced only with `force`, or if it is a report page of natstui; otherwise
    AnalysisError is raised. Raises WriteFailed if the disk fails.
    """
    may_replace_file = force or _is_own_page(file)
    with (
        translate_write_errors(file, AnalysisError),
        open_atomic_file(file, replaces=may_replace_file) as target,
    ):
        target.write(text.encode())
    click.echo(f"natstui: wrote {file}", err=True)


class _ProgressBar:
    """Shows the progress of an analysis: a bar on a terminal, elsewhere a line per step."""

    _WIDTH_CELLS = 24

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._shown_text = ""

    def update(self, progress: dict[str, Any]) -> None:
        """Show the progress of the job."""
        text = str(progress["text"])
        if not self._is_terminal:
            if text != self._shown_text:
                click.echo(f"natstui: {text}", err=True)
            self._shown_text = text
            return
        self._shown_text = text
        steps_count = max(progress["steps_count"], 1)
        done_ratio = progress["done_count"] / steps_count
        if progress["tasks_count"]:
            done_ratio += progress["tasks_done_count"] / progress["tasks_count"] / steps_count
        filled_cells = round(min(done_ratio, 1.0) * self._WIDTH_CELLS)
        bar = "█" * filled_cells + "░" * (self._WIDTH_CELLS - filled_cells)
        click.echo(f"\r\x1b[2K{bar} {done_ratio * 100:3.0f} %  {text}", err=True, nl=False)

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._is_terminal and self._shown_text:
            click.echo("\r\x1b[2K", err=True, nl=False)
