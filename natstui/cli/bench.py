"""`natstui bench`: a ready scenario, a scenario file, or a short form as `nats bench` has."""

from __future__ import annotations

from typing import Any

import click

from natstui.cli.bench_js import js
from natstui.cli.bench_library import compare_runs, runs, scenarios, show
from natstui.cli.bench_options import RunOptions, run_options


class ScenarioGroup(click.Group):
    """A group whose unknown commands are scenarios."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take a word that is no command for the name or the file of a scenario."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "run", self.commands["run"], args
        return super().resolve_command(ctx, args)


@click.group(cls=ScenarioGroup)
def bench() -> None:
    """Put load on NATS and measure it honestly.

    natstui bench SCENARIO runs a ready scenario (see: natstui bench scenarios) or a TOML file.
    """


@bench.command()
@click.argument("scenario")
@run_options
def run(*, scenario: str, options: RunOptions, connection: Any) -> None:
    """Run a scenario: a ready one or a TOML file."""
    from natstui.bench.scenario import find_scenario
    from natstui.cli.bench_run import run_benchmark

    run_benchmark(find_scenario(scenario), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def pub(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Publish to a subject without acknowledgement."""
    from natstui.bench.short import core_plan
    from natstui.cli.bench_run import run_benchmark

    run_benchmark(core_plan(subject, pubs=1), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def sub(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Receive what others publish to a subject, until --msgs, --duration or Ctrl-C."""
    from natstui.bench.short import core_plan
    from natstui.cli.bench_run import run_benchmark

    run_benchmark(core_plan(subject, subs=1), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def pubsub(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Publish and receive in one run: --pubs 1 --subs 3."""
    from natstui.bench.short import core_plan
    from natstui.cli.bench_run import run_benchmark

    run_benchmark(core_plan(subject, pubs=1, subs=1), connection, options)


@bench.command()
@click.argument("subject")
@click.option("--servers", type=click.IntRange(0, 256), default=1, help="0: others answer.")
@run_options
def request(*, subject: str, servers: int, options: RunOptions, connection: Any) -> None:
    """Send requests, one in flight per worker, and answer them with --servers of our own."""
    from natstui.bench.short import service_plan
    from natstui.cli.bench_run import run_benchmark

    run_benchmark(service_plan(subject, clients=1, servers=servers), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def serve(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Answer requests of others, until --duration or Ctrl-C."""
    from natstui.bench.short import service_plan
    from natstui.cli.bench_run import run_benchmark

    run_benchmark(service_plan(subject, servers=1), connection, options)


for _command in (js, compare_runs, runs, scenarios, show):
    bench.add_command(_command)
