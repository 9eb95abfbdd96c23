"""`natstui bench js …`: the short forms for JetStream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from natstui.cli.bench_options import RunOptions, run_options
from natstui.errors import UsageError

if TYPE_CHECKING:
    from natstui.model.benchmark_role import BenchmarkPlan, StreamPlan


@click.group()
def js() -> None:
    """Publish to, consume and read streams."""


@js.group("pub")
def js_pub() -> None:
    """Publish to a stream: its own, made and removed, or an existing one with --stream."""


def _own_or_existing(subject: str, options: RunOptions, *, create: bool, keep: bool) -> StreamPlan:
    """Return the stream of a run: --stream without --create must exist."""
    from natstui.model.benchmark_role import StreamPlan

    name = options.changes.get("stream")
    made = name is None or create
    return StreamPlan(
        name=name or "NATSTUI_BENCH",
        create=made,
        keep=keep,
        subjects=(subject,),
        allow_batches=True,
    )


def _existing(options: RunOptions) -> StreamPlan:
    from natstui.model.benchmark_role import StreamPlan

    name = options.changes.get("stream")
    if name is None:
        raise UsageError("--stream NAME says which stream to read")
    return StreamPlan(name=name, create=False)


def _publisher(mode: str, text: str) -> None:
    @js_pub.command(mode, help=text)
    @click.argument("subject")
    @click.option("--create", is_flag=True, help="Make the stream that --stream names.")
    @click.option("--keep", is_flag=True, help="Leave the stream behind.")
    @run_options
    def publish(
        *,
        subject: str,
        create: bool,
        keep: bool,
        options: RunOptions,
        connection: Any,
    ) -> None:
        from natstui.bench.short import publish_plan
        from natstui.cli.bench_run import run_benchmark

        stream = _own_or_existing(subject, options, create=create, keep=keep)
        plan = publish_plan(f"js-publish-{mode}", subject, 1, stream)  # type: ignore[arg-type]
        run_benchmark(plan, connection, options)


def _reader(name: str, pattern: str, text: str) -> None:
    @js.command(name, help=text)
    @run_options
    def read(*, options: RunOptions, connection: Any) -> None:
        from natstui.bench import short
        from natstui.cli.bench_run import run_benchmark

        gets = pattern.startswith("js-get")
        make: Callable[..., BenchmarkPlan] = short.read_plan if gets else short.consume_plan
        run_benchmark(make(pattern, 1, _existing(options)), connection, options)


_publisher("sync", "Publish and wait for each acknowledgement.")
_publisher("async", "Publish with many messages in flight.")
_publisher("atomic", "Publish in batches that are stored whole or not at all.")
_publisher("fast", "Publish in one flow-controlled batch.")
_reader("consume", "js-consume", "Consume a stream by pulling continuously.")
_reader("fetch", "js-fetch", "Consume a stream fetch by fetch.")
_reader("ordered", "js-ordered", "Read a stream with ordered consumers.")
_reader("get", "js-get", "Get stored messages one by one.")
_reader("get-batch", "js-get-batch", "Get stored messages in batches.")


@js.command("pubsub")
@click.argument("subject")
@click.option("--create", is_flag=True, help="Make the stream that --stream names.")
@click.option("--keep", is_flag=True, help="Leave the stream behind.")
@run_options
def js_pubsub(
    *,
    subject: str,
    create: bool,
    keep: bool,
    options: RunOptions,
    connection: Any,
) -> None:
    """Publish and consume in one run."""
    from natstui.bench.short import stream_plan
    from natstui.cli.bench_run import run_benchmark

    stream = _own_or_existing(subject, options, create=create, keep=keep)
    run_benchmark(stream_plan(subject, pubs=1, subs=1, stream=stream), connection, options)
