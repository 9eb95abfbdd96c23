"""`natstui health`: findings with an exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.options import (
    ConnectionFlags,
    one_account_flags,
    parse_interval_seconds,
    parse_reading_seconds,
    parse_seconds,
)
from natstui.cli.sections import command
from natstui.cli.text_table import colour_severities
from natstui.errors import Interrupted, NatstuiError, UsageError
from natstui.values import replace

if TYPE_CHECKING:
    from natstui.cli.health.reading import ServerReading
    from natstui.cli.health.report import FindingSelection, Report
    from natstui.model.records.tap import StartTap

_UNKNOWN_EXIT_CODE = 3


def _print_catalogue(context: click.Context, _option: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        from natstui.cli.health.formats import catalogue_json, catalogue_text

        as_json = context.params.get("as_json")
        click.echo(catalogue_json() + "\n" if as_json else catalogue_text(), nl=False)
        context.exit()


def exit_unknown_on_failure(command: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command that fails print a sentence and exit with 3, because 1 and 2 are verdicts
    about the server.
    """

    @functools.wraps(command)
    def run_with_unknown_exit_code(**options: Any) -> Any:
        try:
            return command(**options)
        except Interrupted:
            raise
        except NatstuiError as error:
            click.echo(f"natstui: {clean_line(str(error))}", err=True)
            sys.exit(_UNKNOWN_EXIT_CODE)

    return run_with_unknown_exit_code


watch_time_option = click.option(
    "--for", "for_text", metavar="TIME",
    help="How long to watch (trends need time). Default: until everything was read three times, "
        "at most 15s.",
)  # fmt: skip


audit_option = click.option(
    "--audit", "audit_text", metavar="TIME",
    help="After the check, read JetStream API requests for this long: which client requests "
         "what, and which fail. Costs one message per request. Off by default.",
)  # fmt: skip


@command()
@click.option("--json", "as_json", is_flag=True, is_eager=True, help="The same as --format json.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_print_catalogue,
    help="Print every kind of finding, then exit.",
)  # fmt: skip
@click.option("--stream", metavar="S", help="Only this stream and its consumers.")
@click.option("--consumer", metavar="S/C", help="Only this consumer.")
@watch_time_option
@click.option(
    "--format", "format_name", type=click.Choice(["text", "json", "nagios", "openmetrics"]),
    default="text", show_default=True, help="Output format.",
)  # fmt: skip
@click.option(
    "--min-severity", type=click.Choice(["info", "warning", "critical"]),
    default="warning", show_default=True,
        help="Lowest severity to report; info adds advice on settings.",
)  # fmt: skip
@click.option(
    "--ignore-silences",
    is_flag=True,
    help="Report also findings that were silenced on the findings screen.",
)
@audit_option
@click.option("--session", metavar="NAME", help="Check a recording instead of a server.")
@click.option("--sessions", metavar="DIR", help="Folder of the recordings.")
@one_account_flags
@exit_unknown_on_failure
def health(
    flags: ConnectionFlags, as_json: bool, format_name: str, session: str | None, **options: Any
) -> None:
    """Report what is wrong, and what to do.

    Prints since when, and the evidence. Exit code: 0 fine, 1 warning, 2 critical, 3 not readable.
    Changes nothing. With --session: everything that was wrong during the recording, with begin and
    end.
    """
    from natstui.cli.health.formats import FORMATTER_BY_NAME
    from natstui.cli.health.report import FindingSelection

    selection = FindingSelection(
        options["stream"], _parse_stream_and_consumer(options["consumer"]), options["min_severity"]
    )
    audit_s = parse_audit_s(flags, options["audit_text"])
    if audit_s is not None and (session is not None or format_name not in ("text", "json")):
        raise UsageError("--audit reads a server, and is written as text or JSON")
    if session is not None:
        report = _read_recorded_report(flags, selection, session, options["sessions"])
    else:
        includes_silenced = options["ignore_silences"]
        report, _ = read_report(
            flags,
            selection,
            options["for_text"],
            includes_silenced=includes_silenced,
            audit_s=audit_s,
        )
    text = FORMATTER_BY_NAME["json" if as_json else format_name](report)
    click.echo(colour_severities(text) if format_name == "text" else text, nl=False)
    sys.exit(int(report.verdict))


def parse_audit_s(flags: ConnectionFlags, text: str | None) -> float | None:
    """Return for how many seconds to read API requests after the check; None without `--audit`.

    Raises UsageError for an invalid time, and if `--account` names another account.
    """
    if text is None:
        return None
    if flags.account is not None:
        from natstui.model.live.permissions import read_only_account_text

        raise UsageError(f"--audit: {read_only_account_text(flags.account)}")
    return parse_reading_seconds(text, "--audit")


def read_report(
    flags: ConnectionFlags,
    selection: FindingSelection,
    for_text: str | None,
    tap_command: StartTap | None = None,
    *,
    includes_silenced: bool,
    audit_s: float | None = None,
) -> tuple[Report, ServerReading]:
    """Read a server as the flags say; return the report of its findings, and its state.

    `tap_command` is an ack tap that runs in parallel, `audit_s` the seconds of an API audit after
    it. Raises UsageError for an invalid time.
    """
    import asyncio

    from natstui.cli.health.reading import read_server_state
    from natstui.cli.health.report import create_report
    from natstui.cli.servers import unread_source_text

    for_s = None if for_text is None else parse_seconds(for_text, "--for")
    settings, connection = flags.resolve()
    monitor = settings.monitor
    interval_s = min(monitor.interval_s, parse_interval_seconds("1s"))
    max_requests_per_s = monitor.max_requests_per_s
    reading = asyncio.run(
        read_server_state(connection, interval_s, for_s, max_requests_per_s, tap_command, audit_s)
    )
    state, problems = reading.state, [reading.problem]
    if selection.stream is None and selection.consumer is None:
        # Of the account and the servers, which a single stream says nothing about.
        account_failure = state.unavailable.get("INFO")
        problems += [f"the account: {account_failure.reason}"] if account_failure else []
        problems.append(unread_source_text(connection, state.servers.newest))
    problem = "; ".join(filter(None, problems)) or None
    report = create_report(
        state, selection, problem, includes_silenced=includes_silenced, watched_s=reading.watched_s
    )
    return replace(report, audit=reading.audit), reading


def _read_recorded_report(
    flags: ConnectionFlags, selection: FindingSelection, session: str, sessions: str | None
) -> Report:
    from natstui.cli.health.report import create_report
    from natstui.cli.sessions.options import library_folder, progress_bar_callback
    from natstui.session.library import find_session
    from natstui.session.share.recorded_findings import read_recorded_findings

    if flags.server or flags.context or flags.profile or flags.account:
        raise UsageError(
            "--session judges a recording: leave --server, --context, --profile, --account out"
        )
    folder = find_session(library_folder(sessions, flags.config), session)
    state, ended_findings, damage_texts = read_recorded_findings(
        folder, progress_bar_callback("judging")
    )
    return create_report(state, selection, "; ".join(damage_texts) or None, ended_findings)


def _parse_stream_and_consumer(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    stream, slash, consumer = text.partition("/")
    if not (stream and slash and consumer):
        raise UsageError(f"--consumer {text!r}: write it as STREAM/CONSUMER")
    return stream, consumer
