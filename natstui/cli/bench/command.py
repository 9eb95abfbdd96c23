"""`natstui bench`: scenarios, the short forms of `nats bench`, and saved runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from natstui.bench.plan.removed import CLIENT_OPTION_REMOVED_TEXT, REMOTE_WORKERS_REMOVED_TEXT
from natstui.clean import clean_json
from natstui.cli.bench.options import RunOptions, run_options
from natstui.cli.json_line import print_json
from natstui.cli.sections import Group, command
from natstui.errors import UsageError

if TYPE_CHECKING:
    from natstui.model.bench.patterns import Pattern
    from natstui.model.bench.plan import BenchmarkPlan, StreamPlan


@click.group(cls=Group)
def js() -> None:
    """Publish to, consume and read streams."""


@js.group("pub")
def js_pub() -> None:
    """Publish to a stream.

    The run creates a stream and deletes it afterwards; --stream NAME uses an existing one.
    """


def _create_stream_plan(
    subject: str, options: RunOptions, *, create: bool, keep: bool
) -> StreamPlan:
    """Return the plan of a run's stream: a new stream, or with --stream and without --create an
    existing one.
    """
    from natstui.model.bench.plan import StreamPlan

    name = options.plan_changes.get("stream")
    creates_stream = name is None or create
    return StreamPlan(
        name=name or "NATSTUI_BENCH",
        create=creates_stream,
        keep=keep,
        subjects=(subject,),
        allow_batches=True,
    )


def _existing_stream_plan(options: RunOptions) -> StreamPlan:
    from natstui.model.bench.plan import StreamPlan

    name = options.plan_changes.get("stream")
    if name is None:
        raise UsageError("name the stream to read: --stream NAME")
    return StreamPlan(name=name, create=False)


def _add_publish_command(mode: str, text: str, name: str | None = None) -> None:
    @js_pub.command(name or mode, help=text, hidden=name is not None)
    @click.argument("subject")
    @click.option("--create", is_flag=True, help="Create the stream that --stream names.")
    @click.option("--keep", is_flag=True, help="Keep the stream after the run.")
    @run_options
    def publish(
        *,
        subject: str,
        create: bool,
        keep: bool,
        options: RunOptions,
        connection: Any,
    ) -> None:
        from natstui.bench.plan.flags import publish_plan
        from natstui.cli.bench.run import run_benchmark

        stream = _create_stream_plan(subject, options, create=create, keep=keep)
        plan = publish_plan(f"js-publish-{mode}", subject, 1, stream)  # type: ignore[arg-type]
        run_benchmark(plan, connection, options)


def _add_read_command(name: str, pattern: Pattern, text: str) -> None:
    @js.command(name, help=text)
    @run_options
    def read(*, options: RunOptions, connection: Any) -> None:
        from natstui.bench.plan import flags
        from natstui.cli.bench.run import run_benchmark
        from natstui.model.bench.patterns import traits

        reads_stored_messages = traits(pattern).reads_stored
        create_plan: Callable[..., BenchmarkPlan] = (
            flags.direct_get_plan if reads_stored_messages else flags.consume_plan
        )
        run_benchmark(create_plan(pattern, 1, _existing_stream_plan(options)), connection, options)


_add_publish_command("sync", "Publish and wait for each acknowledgement.")
_add_publish_command("async", "Publish with many messages in flight.")
_add_publish_command(
    "atomic", "Publish in atomic batches. A batch is stored completely or not at all."
)
_add_publish_command("atomic", "The same as atomic.", name="batch")
_add_publish_command("fast", "Publish in one flow-controlled batch.")
_add_read_command("consume", "js-consume", "Consume a stream by pulling continuously.")
_add_read_command("fetch", "js-fetch", "Consume a stream fetch by fetch.")
_add_read_command("ordered", "js-ordered", "Read a stream with ordered consumers.")
_add_read_command("push", "js-push", "Consume a stream through a push consumer.")
_add_read_command("get-batch", "js-get-batch", "Get stored messages in batches.")


@js.command("get")
@click.argument("mode", type=click.Choice(["sync", "batch"]), default="sync")
@run_options
def get(*, mode: str, options: RunOptions, connection: Any) -> None:
    """Get stored messages one by one. `get batch` is get-batch."""
    from natstui.bench.plan.flags import direct_get_plan
    from natstui.cli.bench.run import run_benchmark

    pattern: Pattern = "js-get-batch" if mode == "batch" else "js-get"
    run_benchmark(direct_get_plan(pattern, 1, _existing_stream_plan(options)), connection, options)


@js.command("pubsub")
@click.argument("subject")
@click.option("--create", is_flag=True, help="Create the stream that --stream names.")
@click.option("--keep", is_flag=True, help="Keep the stream after the run.")
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
    from natstui.bench.plan.flags import stream_plan
    from natstui.cli.bench.run import run_benchmark

    stream = _create_stream_plan(subject, options, create=create, keep=keep)
    run_benchmark(stream_plan(subject, pubs=1, subs=1, stream=stream), connection, options)


def _pass_library_folder(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--config` to a command, which gets the folder of the run library as `folder: Path`."""

    @click.option("--config", "--settings", "config", metavar="FILE", help="Configuration file.")
    @functools.wraps(command)
    def run_with_library(*, config: str | None, **options: Any) -> Any:
        from natstui.bench.result.library import library_folder
        from natstui.config.load import load

        settings = load(Path(config) if config else None).settings
        return command(folder=library_folder(settings.benchmark.folder), **options)

    return run_with_library


@command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per run.")
@_pass_library_folder
def runs(*, as_json: bool, folder: Path) -> None:
    """List saved runs, oldest first."""
    from natstui.bench.result import library

    if as_json:
        for run in library.list_runs(folder):
            print_json(to_builtins(run))
        return
    for name in library.run_names(folder):
        click.echo(name)


@command(context_settings={"ignore_unknown_options": True})
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="The complete object.")
@_pass_library_folder
def show(*, run: str, as_json: bool, folder: Path) -> None:
    """Show a saved run. RUN is its name, a part of its name, a file, or -1 for the newest."""
    from natstui.bench.result import library
    from natstui.bench.result.text import LABEL_WIDTH_CELLS, summary_text
    from natstui.cli.text_table import stdout_width, wrap_hanging

    saved_run = library.load(run, folder)
    text = wrap_hanging(summary_text(saved_run), stdout_width(), LABEL_WIDTH_CELLS)
    click.echo(clean_json(library.encode(saved_run).decode()) if as_json else text)


@command("compare", context_settings={"ignore_unknown_options": True})
@click.argument("names", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per comparison.")
@_pass_library_folder
def compare_runs(*, names: tuple[str, ...], as_json: bool, folder: Path) -> None:
    """Compare saved runs with the first of them."""
    from natstui.bench.result import library
    from natstui.bench.result.compare import compare
    from natstui.bench.result.text import comparison_text
    from natstui.errors import UsageError

    if len(names) < 2:
        raise UsageError("compare needs at least two runs: natstui bench runs lists them")
    base_run, *compared_runs = (library.load(name, folder) for name in names)
    for compared_run in compared_runs:
        differences = compare(base_run, compared_run)
        if as_json:
            rows = [
                {**to_builtins(difference), "unit": difference.unit} for difference in differences
            ]
            print_json({"before": base_run.name, "after": compared_run.name, "differences": rows})
        else:
            click.echo(comparison_text(base_run, compared_run, differences))


@command("merge", context_settings={"ignore_unknown_options": True})
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_pass_library_folder
def merge_saved_runs(*, names: tuple[str, ...], as_json: bool, folder: Path) -> None:
    """Add up saved runs of several hosts.

    RUN is the name or file of a run; --at starts several runs together. Latencies are merged
    exactly, rates cover the time that all runs measured, and each run accounts for its own
    messages.
    """
    from natstui.bench.result import library
    from natstui.bench.result.merge_saved_runs import merge_runs
    from natstui.bench.result.text import LABEL_WIDTH_CELLS, merged_text
    from natstui.cli.text_table import stdout_width, wrap_hanging

    file_stems = [Path(name).stem if name.endswith(".json") else name for name in names]
    shown_names = file_stems if len(set(file_stems)) == len(file_stems) else names
    saved_runs = [library.load(name, folder) for name in names]
    merged_run = merge_runs(list(zip(shown_names, saved_runs, strict=True)))
    if as_json:
        print_json(to_builtins(merged_run))
    else:
        click.echo(wrap_hanging(merged_text(merged_run), stdout_width(), LABEL_WIDTH_CELLS))


@command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per scenario.")
def scenarios(*, name: str | None, as_json: bool) -> None:
    """List the built-in scenarios, or print one. Edit a printed one to make your own."""
    from natstui.bench.plan.scenario import built_in_scenarios, read_scenario
    from natstui.errors import NotFound

    toml_by_scenario = built_in_scenarios()
    if name is None:
        for scenario, text in toml_by_scenario.items():
            plan = read_scenario(text, scenario)
            if as_json:
                print_json(
                    {"name": scenario, "title": plan.title, "description": plan.description}
                )
            else:
                click.echo(f"{scenario:<20}{plan.title}")
    elif name not in toml_by_scenario:
        raise NotFound(f"no built-in scenario {name!r}: there are {', '.join(toml_by_scenario)}")
    elif as_json:
        plan = read_scenario(toml_by_scenario[name], name)
        print_json({"name": name, "text": toml_by_scenario[name], "plan": to_builtins(plan)})
    else:
        click.echo(toml_by_scenario[name], nl=False)


class ScenarioGroup(Group):
    """A command group that runs an unknown command as the name or file of a scenario."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and arguments; the command is `run` if the first argument is no
        command.

        Raises UsageError with the new command for the flags of older `nats bench` versions.
        """
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            _refuse_old_flags(args[0], args[1:])
            return "run", self.commands["run"], args
        return super().resolve_command(ctx, args)


_COMMAND_BY_OLD_FLAG = {
    "--pub": "pub", "--sub": "sub", "--request": "service request", "--reply": "service serve",
}  # fmt: skip
"""Flags of older `nats bench` versions → the command that replaced each."""


def _refuse_old_flags(subject: str, flags: list[str]) -> None:
    """Raise UsageError with the new command if the flags are those of older `nats bench`
    versions.
    """
    command_by_flag = dict(_COMMAND_BY_OLD_FLAG)
    if "--js" in flags:
        command_by_flag |= {"--pub": "js pub async", "--sub": "js ordered"}
    replacement_commands = [
        f"natstui bench {command_by_flag[flag]} {subject} --clients "
        f"{''.join(flags[index + 1 : index + 2])}"
        for index, flag in enumerate(flags)
        if flag in command_by_flag
    ]
    if replacement_commands:
        raise UsageError(
            f"this pattern is a command of its own: {' and '.join(replacement_commands)}"
        )


@click.group(
    cls=ScenarioGroup,
    examples=(
        "natstui bench pubsub hello --pubs 1 --subs 3 --msgs 15k",
        "natstui bench js pub async orders.new --msgs 100k --size 1KB",
        "natstui bench pubsub hello --rate 2k --duration 30s --assert 'e2e.p99 < 20ms'",
    ),
)
def bench() -> None:
    """Put load on NATS and measure it honestly.

    natstui bench SCENARIO runs a built-in scenario (see: natstui bench scenarios) or a TOML file.
    """


@bench.command()
@click.argument("scenario")
@run_options
def run(*, scenario: str, options: RunOptions, connection: Any) -> None:
    """Run a scenario: built-in or a TOML file."""
    from natstui.bench.plan.scenario import find_scenario
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(find_scenario(scenario), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def pub(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Publish to a subject without acknowledgement."""
    from natstui.bench.plan.flags import core_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(core_plan(subject, pubs=1), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def sub(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Receive what others publish to a subject. Runs until --msgs, --duration or Ctrl-C."""
    from natstui.bench.plan.flags import core_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(core_plan(subject, subs=1), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def pubsub(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Publish and receive in one run. --pubs and --subs set the number of workers."""
    from natstui.bench.plan.flags import core_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(core_plan(subject, pubs=1, subs=1), connection, options)


@bench.command()
@click.argument("subject")
@click.option("--servers", type=click.IntRange(0, 256), default=1, help="0: others reply.")
@run_options
def request(*, subject: str, servers: int, options: RunOptions, connection: Any) -> None:
    """Send requests and measure the replies. Each worker has one request in flight. --servers N
    starts N workers that reply.
    """
    from natstui.bench.plan.flags import service_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(service_plan(subject, clients=1, servers=servers), connection, options)


@bench.command()
@click.argument("subject")
@run_options
def serve(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Reply to requests of others. Runs until --duration or Ctrl-C."""
    from natstui.bench.plan.flags import service_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(service_plan(subject, servers=1), connection, options)


@click.group(cls=Group)
def kv() -> None:
    """Put values into a bucket, or get them."""


def _add_bucket_command(name: str, pattern: Pattern, text: str) -> None:
    @kv.command(name, help=text)
    @click.option(
        "--bucket", metavar="NAME", help="Bucket to use; without it the run creates one."
    )
    @run_options
    def run_bucket_load(*, bucket: str | None, options: RunOptions, connection: Any) -> None:
        from natstui.bench.plan.flags import bucket_plan
        from natstui.cli.bench.run import run_benchmark
        from natstui.model.bench.patterns import traits

        if bucket is None and traits(pattern).reads_stored:
            raise UsageError("name the bucket to read: --bucket NAME")
        msgs_text = options.plan_changes.get("msgs")
        plan = bucket_plan(pattern, bucket, msgs_text, create=bucket is None)
        run_benchmark(plan, connection, options)


_add_bucket_command(
    "put", "kv-put", "Put values. Every message has a key of its own unless --randomize."
)
_add_bucket_command("get", "kv-get", "Get values that `kv put` left in a bucket.")


@click.group(cls=Group)
def service() -> None:
    """Send requests to a service, or be one."""


@service.command("request")
@click.argument("subject")
@run_options
def request_service(*, subject: str, options: RunOptions, connection: Any) -> None:
    """Send requests that others reply to."""
    from natstui.bench.plan.flags import service_plan
    from natstui.cli.bench.run import run_benchmark

    run_benchmark(service_plan(subject, clients=1), connection, options)


service.add_command(serve)


_COMMAND_BY_OLDJS_ARGUMENT = {"ordered": "js ordered", "push": "js push", "pull": "js fetch"}


@command(
    "oldjs",
    hidden=True,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def oldjs(*, arguments: tuple[str, ...]) -> None:
    """Raise UsageError with the command that replaces `nats bench oldjs`."""
    replacement_command = next(
        (
            _COMMAND_BY_OLDJS_ARGUMENT[argument]
            for argument in arguments
            if argument in _COMMAND_BY_OLDJS_ARGUMENT
        ),
        "js consume",
    )
    raise UsageError(
        "oldjs is the older API of the Go client; the server sees the same requests: use natstui "
        f"bench {replacement_command} --stream NAME"
    )


def _create_removed_command(name: str, sentence: str) -> click.Command:
    """Return a hidden command that raises UsageError with a sentence."""

    @command(
        name,
        hidden=True,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def raise_usage_error(*, arguments: tuple[str, ...]) -> None:
        raise UsageError(sentence)

    return raise_usage_error


vs = _create_removed_command("vs", CLIENT_OPTION_REMOVED_TEXT)
worker = _create_removed_command("worker", REMOTE_WORKERS_REMOVED_TEXT)


for _subcommand in (
    js, kv, oldjs, service, compare_runs, merge_saved_runs, runs, scenarios, show, vs, worker,
):  # fmt: skip
    bench.add_command(_subcommand)
