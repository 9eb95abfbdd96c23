"""`natstui analyze`: recorded sessions through the Spark pipeline, results where people look."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from natstui.analysis.launch import Wish, run_job
from natstui.cli.analyze_text import report_lines
from natstui.cli.library_options import library
from natstui.cli.text_table import stdout_width
from natstui.errors import AnalysisError

INTERRUPTED = 130


def _cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("natstui")


def _found(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what was named: a path, glob or URL as it is, else a session of the library."""
    from natstui.session.library import find

    folder = library(None, None)
    return tuple(word if _is_place(word) else str(find(folder, word)) for word in words)


def _is_place(word: str) -> bool:
    return Path(word).exists() or any(mark in word for mark in "/*?[")


@click.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.option("--out", help="Folder or URL of the tables; kept, so that the next run is quicker.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--html", "page_file", type=click.Path(path_type=Path), help="Write a report page.")
@click.option("--baseline", multiple=True, metavar="NAME", help="Session to compare others with.")
@click.option(
    "--bucket",
    "bucket_s",
    type=click.IntRange(1, 86_400),
    default=60,
    help="Seconds per bucket of the rates.",
)
@click.option(
    "--stuck-after",
    "stuck_after_s",
    type=click.FloatRange(min=1),
    default=30.0,
    help="Seconds without progress until a consumer is called stuck.",
)
@click.option(
    "--rows",
    "rows_count",
    type=click.IntRange(1, 100_000),
    default=200,
    help="Rows of each table in --json and --html.",
)
@click.option("--master", help="Spark master: local[2], spark://host:7077, yarn, k8s://…")
@click.option("--remote", help="Spark Connect server: sc://host:15002; needs the extra `connect`.")
@click.option("--memory", default="1g", help="Memory of Spark's driver and executors.")
@click.option("--scratch", help="Folder for what Spark cannot keep in memory.")
@click.option("--log", help="File for what Spark has to say.")
@click.option("--ui", is_flag=True, help="Open Spark's own web page while it runs.")
@click.pass_context
def analyze(
    ctx: click.Context,
    /,
    sessions: tuple[str, ...],
    out: str | None,
    as_json: bool,
    page_file: Path | None,
    **options: Any,
) -> None:
    """Analyse recorded sessions: folders, globs, URLs, or names of the library.

    Answers where it lagged, what was stuck and why, what was redelivered, what the server bore,
    and whether a session is slower than another.
    """
    # Asked now: a page that cannot be written is no news to get after minutes of work.
    _check_page(page_file)
    classes = str(_cache() / "spark")
    wish = Wish(_found(sessions), out or str(_cache() / "analysis"), classes=classes, **options)
    show = _Bar(sys.stderr.isatty())
    try:
        result = run_job(wish, show.update)
    except KeyboardInterrupt:
        show.clear()
        click.echo("natstui: cancelled", err=True)
        ctx.exit(INTERRUPTED)
    finally:
        show.clear()
    if page_file:
        _write_page(page_file, result)
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False))
    else:
        click.echo("\n".join(report_lines(result, stdout_width())))


def _check_page(page_file: Path | None) -> None:
    if page_file and not page_file.absolute().parent.is_dir():
        raise AnalysisError(f"cannot write {page_file}: its folder does not exist")


def _write_page(page_file: Path, result: dict[str, Any]) -> None:
    """Write the page aside and rename it."""
    from natstui.analysis.page import page

    aside = page_file.with_name(f".{page_file.name}.tmp")
    try:
        aside.write_text(page(result), encoding="utf-8")
        aside.replace(page_file)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise AnalysisError(f"cannot write {page_file}: {error.strerror}") from error
    click.echo(f"natstui: wrote {page_file}", err=True)


class _Bar:
    """One line of progress on a terminal, one line per step elsewhere."""

    _WIDTH = 24

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._text = ""

    def update(self, told: dict[str, Any]) -> None:
        """Show how far it is."""
        text = str(told["text"])
        if not self._terminal:
            if text != self._text:
                click.echo(f"natstui: {text}", err=True)
            self._text = text
            return
        self._text = text
        share = told["done_count"] / max(told["steps_count"], 1)
        if told["tasks_count"]:
            share += told["tasks_done_count"] / told["tasks_count"] / max(told["steps_count"], 1)
        filled = round(min(share, 1.0) * self._WIDTH)
        bar = "█" * filled + "░" * (self._WIDTH - filled)
        click.echo(f"\r\x1b[2K{bar} {share * 100:3.0f} %  {text}", err=True, nl=False)

    def clear(self) -> None:
        """Leave nothing of it on the terminal."""
        if self._terminal and self._text:
            click.echo("\r\x1b[2K", err=True, nl=False)
