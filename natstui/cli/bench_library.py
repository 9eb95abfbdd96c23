"""`natstui bench runs | show | compare | scenarios`: what was measured, and what can be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def _library(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `folder: Path`, the run library."""

    @click.option("--config", metavar="FILE", help="Configuration file.")
    @functools.wraps(command)
    def with_library(*, config: str | None, **others: Any) -> Any:
        from natstui.bench.library import library_folder
        from natstui.config.load import load

        settings = load(Path(config) if config else None).settings
        return command(folder=library_folder(settings.benchmark.folder), **others)

    return with_library


@click.command()
@_library
def runs(*, folder: Path) -> None:
    """List saved runs, oldest first."""
    from natstui.bench import library

    for name in library.runs(folder):
        click.echo(name)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="The whole object.")
@_library
def show(*, run: str, as_json: bool, folder: Path) -> None:
    """Show a saved run: its name, a part of it, a file, or -1 for the newest."""
    from natstui.bench import library
    from natstui.bench.text import LABEL_CELLS, summary_text
    from natstui.cli.text_table import hanging, stdout_width

    found = library.load(run, folder)
    text = hanging(summary_text(found), stdout_width(), LABEL_CELLS)
    click.echo(library.encode(found).decode() if as_json else text)


@click.command("compare", context_settings={"ignore_unknown_options": True})
@click.argument("names", nargs=-1, required=True)
@_library
def compare_runs(*, names: tuple[str, ...], folder: Path) -> None:
    """Compare two or more saved runs: the first with each of the others."""
    from natstui.bench import library
    from natstui.bench.compare import compare
    from natstui.bench.text import comparison_text
    from natstui.errors import UsageError

    if len(names) < 2:
        raise UsageError("compare needs two runs or more: see natstui bench runs")
    first, *others = (library.load(name, folder) for name in names)
    for other in others:
        click.echo(comparison_text(first, other, compare(first, other)))


@click.command()
@click.argument("name", required=False)
def scenarios(*, name: str | None) -> None:
    """List the ready scenarios, or print one as a start for your own file."""
    from natstui.bench.scenario import read_scenario, ready_scenarios
    from natstui.errors import NotFound

    ready = ready_scenarios()
    if name is None:
        for one, text in ready.items():
            click.echo(f"{one:<16}{read_scenario(text, one).title}")
    elif name in ready:
        click.echo(ready[name], nl=False)
    else:
        raise NotFound(f"no ready scenario {name!r}: there are {', '.join(ready)}")
