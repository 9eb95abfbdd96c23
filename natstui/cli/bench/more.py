"""Groups of `nats bench`: `kv` and `service`; and what is answered with a sentence only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from natstui.bench.plan.removed import NO_MACHINES, ONE_CLIENT
from natstui.cli.bench.options import RunOptions, run_options
from natstui.cli.sections import Group, command
from natstui.errors import UsageError

if TYPE_CHECKING:
    from natstui.model.bench.patterns import Pattern


@click.group(cls=Group)
def kv() -> None:
    """Put values into a bucket, or get them."""


def _bucket(name: str, pattern: Pattern, text: str) -> None:
    @kv.command(name, help=text)
    @click.option("--bucket", metavar="NAME", help="Without it the run creates one.")
    @run_options
    def keys(*, bucket: str | None, options: RunOptions, connection: Any) -> None:
        from natstui.bench.plan.flags import bucket_plan
        from natstui.cli.bench.run import run_benchmark
        from natstui.model.bench.patterns import traits

        if bucket is None and traits(pattern).reads_stored:
            raise UsageError("--bucket NAME says which bucket to read")
        plan = bucket_plan(pattern, bucket, options.changes.get("msgs"), create=bucket is None)
        run_benchmark(plan, connection, options)


_bucket("put", "kv-put", "Put values. Every message has a key of its own unless --randomize.")
_bucket("get", "kv-get", "Get values that `kv put` left in a bucket.")


@click.group(cls=Group)
def service() -> None:
    """Send requests to a service, or be one."""


@service.command("request")
@click.argument("subject")
@run_options
def ask(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Send requests that others reply to."""
    from natstui.bench.plan.flags import service_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(service_plan(subject, clients=1), connection, options)


@service.command("serve")
@click.argument("subject")
@run_options
def answer(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Reply to requests of others. Runs until --duration or Ctrl-C."""
    from natstui.bench.plan.flags import service_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(service_plan(subject, servers=1), connection, options)


_SAME = {"ordered": "js ordered", "push": "js push", "pull": "js fetch"}


@command(
    "oldjs",
    hidden=True,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def oldjs(*, words: tuple[str, ...]) -> None:
    """Name the command that does the same. There is one API here."""
    same = next((_SAME[word] for word in words if word in _SAME), "js consume")
    raise UsageError(
        "oldjs is the older API of the Go client, and the server sees no difference:"
        f" say natstui bench {same} --stream NAME"
    )


def _removed(name: str, sentence: str) -> click.Command:
    """Return a hidden command that raises UsageError with a sentence."""

    @command(
        name,
        hidden=True,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def removed(*, words: tuple[str, ...]) -> None:
        raise UsageError(sentence)

    return removed


vs = _removed("vs", ONE_CLIENT)
worker = _removed("worker", NO_MACHINES)
