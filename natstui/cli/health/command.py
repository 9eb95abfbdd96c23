"""`natstui health`: findings with an exit code; `natstui stuck`: a consumer in full."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import complete_consumers, stream_of_consumer_argument
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

if TYPE_CHECKING:
    from natstui.cli.health.reading import ServerReading
    from natstui.cli.health.report import FindingSelection, Report
    from natstui.model.records.tap import StartTap

_UNKNOWN_EXIT_CODE = 3
_VERDICT_COLOURS = {0: "green", 1: "yellow", 2: "red"}
"""Exit code → the colour of the verdict on a terminal."""


def _print_catalogue(context: click.Context, _option: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        from natstui.cli.health.formats import catalogue_json, catalogue_text

        as_json = context.params.get("as_json")
        click.echo(catalogue_json() + "\n" if as_json else catalogue_text(), nl=False)
        context.exit()


def _exit_unknown_on_failure(command: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command exit with 3 and a sentence if it fails: 1 and 2 are verdicts about the
    server.
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


_for_option = click.option(
    "--for", "for_text", metavar="TIME",
    help="How long to watch (trends need time). Default: until everything was read three times, "
        "at most 15s.",
)  # fmt: skip


_audit_option = click.option(
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
@_for_option
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
@_audit_option
@click.option("--session", metavar="NAME", help="Check a recording instead of a server.")
@click.option("--sessions", metavar="DIR", help="Folder of the recordings.")
@one_account_flags
@_exit_unknown_on_failure
def health(
    flags: ConnectionFlags, as_json: bool, format_name: str, session: str | None, **options: Any
) -> None:
    """Report what is wrong, and what to do.

    Prints since when, and the evidence. Exit code: 0 fine, 1 warning, 2 critical, 3 not readable.
    Changes nothing. With --session: everything that was wrong during the recording, with begin and
    end.
    """
    from natstui.cli.health.formats import FORMATS
    from natstui.cli.health.report import FindingSelection

    selection = FindingSelection(
        options["stream"], _parse_consumer(options["consumer"]), options["min_severity"]
    )
    audit_s = _parse_audit_s(flags, options["audit_text"])
    if audit_s is not None and (session is not None or format_name not in ("text", "json")):
        raise UsageError("--audit reads a server, and is written as text or JSON")
    if session is not None:
        report = _read_recorded_report(flags, selection, session, options["sessions"])
    else:
        includes_silenced = options["ignore_silences"]
        report, _ = _read_report(
            flags,
            selection,
            options["for_text"],
            includes_silenced=includes_silenced,
            audit_s=audit_s,
        )
    text = FORMATS["json" if as_json else format_name](report)
    click.echo(colour_severities(text) if format_name == "text" else text, nl=False)
    sys.exit(int(report.verdict))


@command()
@stream_of_consumer_argument
@click.argument("consumer", shell_complete=complete_consumers)
@_for_option
@click.option(
    "--tap", "tap_text", metavar="TIME",
    help="Read every ack, nak and term of the clients for this time: exact counts, but natstui "
        "receives as many messages. Default: off.",
)  # fmt: skip
@_audit_option
@click.option(
    "--facts", "includes_facts", is_flag=True,
    help="Print every fact used to find the cause, with its value and period.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@one_account_flags
@_exit_unknown_on_failure
def stuck(
    flags: ConnectionFlags, stream: str, consumer: str, for_text: str | None, tap_text: str | None,
    audit_text: str | None, includes_facts: bool, as_json: bool,
) -> None:  # fmt: skip
    """Explain what one consumer waits for.

    Prints which message is next, and what to do. Exit code: 0 nothing is wrong, 1 warning, 2
    critical, 3 not readable.
    """
    from natstui.cli.health.formats import consumer_json, consumer_lines, has_row
    from natstui.cli.health.report import FindingSelection

    if tap_text is not None and flags.account is not None:
        from natstui.model.live.permissions import read_only_account_text

        raise UsageError(f"--tap: {read_only_account_text(flags.account)}")
    tap_command = None if tap_text is None else _parse_tap(stream, consumer, tap_text)
    selection = FindingSelection(consumer=(stream, consumer), min_severity="info")
    # For one consumer, everything is of interest.
    audit_s = _parse_audit_s(flags, audit_text)
    report, reading = _read_report(
        flags, selection, for_text, tap_command, includes_silenced=True, audit_s=audit_s
    )
    state, tap_result = reading.state, reading.tap_result
    name = (stream, consumer)
    is_unreachable = stream in state.unreachable_streams or name in state.unreachable_consumers
    if not has_row(state, stream, consumer) and (is_unreachable or report.findings):
        reasons = [
            f"{finding.entity.text}: {finding.kind.sentence}" for finding in report.findings
        ]
        reason = (
            "; ".join(reasons)
            or report.unknown_reason
            or "the leader of the consumer does not reply"
        )
        raise UsageError(f"consumer {stream}/{consumer} cannot be reached: {reason}")
    if report.unknown_reason:
        raise UsageError(report.unknown_reason)
    if as_json:
        click.echo(consumer_json(state, stream, consumer, report, tap_result))
    else:
        lines = consumer_lines(
            state, stream, consumer, report, tap_result, includes_facts=includes_facts
        )
        title = click.style(lines[0], fg=_VERDICT_COLOURS.get(int(report.verdict)), bold=True)
        click.echo("\n".join([title, colour_severities("\n".join(lines[1:]))]))
    if reading.stop_event is not None:
        reading.stop_event.check("reading")
    sys.exit(int(report.verdict))


def _parse_tap(stream: str, consumer: str, text: str) -> StartTap:
    from natstui.model.records.tap import MAX_TAP_S, StartTap

    for_s = parse_seconds(text, "--tap")
    if not 0 < for_s <= MAX_TAP_S:
        raise UsageError(f"--tap {text}: it must be longer than 0 and at most {MAX_TAP_S:.0f}s")
    return StartTap(0, stream, consumer, for_s)


def _parse_audit_s(flags: ConnectionFlags, text: str | None) -> float | None:
    """Return for how many seconds to read API requests after the check; None without `--audit`.

    Raises UsageError for an invalid time, and for another account than that of the user.
    """
    if text is None:
        return None
    if flags.account is not None:
        from natstui.model.live.permissions import read_only_account_text

        raise UsageError(f"--audit: {read_only_account_text(flags.account)}")
    return parse_reading_seconds(text, "--audit")


def _read_report(
    flags: ConnectionFlags,
    selection: FindingSelection,
    for_text: str | None,
    tap_command: StartTap | None = None,
    *,
    includes_silenced: bool,
    audit_s: float | None = None,
) -> tuple[Report, ServerReading]:
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
        unread_account = state.unavailable.get("INFO")
        problems += [f"the account: {unread_account.reason}"] if unread_account else []
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
    state, ended_findings, damage = read_recorded_findings(
        folder, progress_bar_callback("judging")
    )
    return create_report(state, selection, "; ".join(damage) or None, ended_findings)


def _parse_consumer(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    stream, slash, consumer = text.partition("/")
    if not (stream and slash and consumer):
        raise UsageError(f"--consumer {text!r}: write it as STREAM/CONSUMER")
    return stream, consumer
