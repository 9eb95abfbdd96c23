"""`natstui health`: what is wrong, with an exit code; `natstui stuck`: one consumer in full."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_text
from natstui.cli.complete import consumers, on_stream
from natstui.cli.options import (
    ConnectionFlags,
    interval_seconds,
    one_account_flags,
    parse_seconds,
    reading_seconds,
)
from natstui.cli.sections import command
from natstui.cli.text_table import severities_coloured
from natstui.errors import NatstuiError, UsageError

if TYPE_CHECKING:
    from natstui.cli.health.look import ServerReading
    from natstui.cli.health.report import Chosen, Report
    from natstui.model.records.tap import StartTap

_UNKNOWN = 3
_COLOURS = {0: "green", 1: "yellow", 2: "red"}
"""Exit code → the colour of the verdict on a terminal."""


def _catalogue(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from natstui.cli.health.formats import catalogue_json, catalogue_text

        as_json = context.params.get("as_json")
        click.echo(catalogue_json() + "\n" if as_json else catalogue_text(), nl=False)
        context.exit()


def _unknown_on_failure(command: Callable[..., Any]) -> Callable[..., Any]:
    """End with 3 and one sentence: 1 and 2 say something about the server."""

    @functools.wraps(command)
    def told(**words: Any) -> Any:
        try:
            return command(**words)
        except NatstuiError as error:
            click.echo(f"natstui: {clean_text(str(error))}", err=True)
            sys.exit(_UNKNOWN)

    return told


_HOW_LONG = click.option(
    "--for", "for_text", metavar="TIME",
    help="How long to watch (trends need time). Default: until everything was read three times, "
        "at most 15s.",
)  # fmt: skip


_AUDIT = click.option(
    "--audit", "audit_text", metavar="TIME",
    help="After the check, read JetStream API requests for this long: which client requests "
         "what, and which fail. Costs one message per request. Off by default.",
)  # fmt: skip


@command()
@click.option("--json", "as_json", is_flag=True, is_eager=True, help="The same as --format json.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_catalogue,
    help="Print every kind of finding, then exit.",
)  # fmt: skip
@click.option("--stream", metavar="S", help="Only this stream and its consumers.")
@click.option("--consumer", metavar="S/C", help="Only this consumer.")
@_HOW_LONG
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "nagios", "openmetrics"]),
    default="text", show_default=True, help="Output format.",
)  # fmt: skip
@click.option(
    "--min-severity", "least", type=click.Choice(["info", "warning", "critical"]),
    default="warning", show_default=True,
        help="Lowest severity to report; info adds advice on settings.",
)  # fmt: skip
@click.option(
    "--ignore-silences",
    is_flag=True,
    help="Report also findings that were silenced on the findings screen.",
)
@_AUDIT
@click.option("--session", metavar="NAME", help="Check a recording instead of a server.")
@click.option("--sessions", metavar="DIR", help="Folder of the recordings.")
@one_account_flags
@_unknown_on_failure
def health(
    flags: ConnectionFlags, as_json: bool, form: str, session: str | None, **words: Any
) -> None:
    """Report what is wrong, and what to do.

    Prints since when, and the evidence. Exit code: 0 fine, 1 warning, 2 critical, 3 not readable.
    Changes nothing. With --session: everything that was wrong during the recording, with begin and
    end.
    """
    from natstui.cli.health.formats import FORMATS
    from natstui.cli.health.report import Chosen

    chosen = Chosen(words["stream"], _consumer(words["consumer"]), words["least"])
    audit_s = _audit_s(flags, words["audit_text"])
    if audit_s is not None and (session is not None or form not in ("text", "json")):
        raise UsageError("--audit reads a server, and is written as text or JSON")
    if session is not None:
        report = _recorded(flags, chosen, session, words["sessions"])
    else:
        silenced = words["ignore_silences"]
        report, _ = _look(
            flags, chosen, words["for_text"], with_silenced=silenced, audit_s=audit_s
        )
    text = FORMATS["json" if as_json else form](report)
    click.echo(severities_coloured(text) if form == "text" else text, nl=False)
    sys.exit(int(report.verdict))


@command()
@on_stream
@click.argument("consumer", shell_complete=consumers)
@_HOW_LONG
@click.option(
    "--tap", "tap_text", metavar="TIME",
    help="Read every ack, nak and term of the clients for this time: exact counts, but natstui "
        "receives as many messages. Default: off.",
)  # fmt: skip
@_AUDIT
@click.option(
    "--facts", "with_facts", is_flag=True,
    help="Print every fact used to find the cause, with its value and period.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@one_account_flags
@_unknown_on_failure
def stuck(
    flags: ConnectionFlags, stream: str, consumer: str, for_text: str | None, tap_text: str | None,
    audit_text: str | None, with_facts: bool, as_json: bool,
) -> None:  # fmt: skip
    """Explain what one consumer waits for.

    Prints which message is next, and what to do. Exit code: 0 nothing is wrong, 1 warning, 2
    critical, 3 not readable.
    """
    from natstui.cli.health.report import Chosen
    from natstui.cli.health.stuck import explained, explained_json, has_row

    if tap_text is not None and flags.account is not None:
        from natstui.model.live.permissions import only_watched

        raise UsageError(f"--tap: {only_watched(flags.account)}")
    tapping = None if tap_text is None else _tap_of(stream, consumer, tap_text)
    chosen = Chosen(consumer=(stream, consumer), least="info")
    # Who asks about one consumer wants to hear everything of it.
    audit_s = _audit_s(flags, audit_text)
    report, watched = _look(flags, chosen, for_text, tapping, with_silenced=True, audit_s=audit_s)
    state, tapped = watched.state, watched.tapped
    name = (stream, consumer)
    away = stream in state.unreachable_streams or name in state.unreachable_consumers
    if not has_row(state, stream, consumer) and (away or report.findings):
        reasons = [
            f"{finding.entity.text}: {finding.kind.sentence}" for finding in report.findings
        ]
        why = "; ".join(reasons) or report.unknown or "the leader of the consumer does not reply"
        raise UsageError(f"consumer {stream}/{consumer} cannot be reached: {why}")
    if report.unknown:
        raise UsageError(report.unknown)
    if as_json:
        click.echo(explained_json(state, stream, consumer, report, tapped))
    else:
        lines = explained(state, stream, consumer, report, tapped, with_facts=with_facts)
        title = click.style(lines[0], fg=_COLOURS.get(int(report.verdict)), bold=True)
        click.echo("\n".join([title, severities_coloured("\n".join(lines[1:]))]))
    sys.exit(int(report.verdict))


def _tap_of(stream: str, consumer: str, text: str) -> StartTap:
    from natstui.model.records.tap import LONGEST_TAP_S, StartTap

    for_s = parse_seconds(text, "--tap")
    if not 0 < for_s <= LONGEST_TAP_S:
        raise UsageError(
            f"--tap {text}: it must be longer than 0 and at most {LONGEST_TAP_S:.0f}s"
        )
    return StartTap(0, stream, consumer, for_s)


def _audit_s(flags: ConnectionFlags, text: str | None) -> float | None:
    """Return for how long the API audit is read; None without one."""
    if text is None:
        return None
    if flags.account is not None:
        from natstui.model.live.permissions import only_watched

        raise UsageError(f"--audit: {only_watched(flags.account)}")
    return reading_seconds(text, "--audit")


def _look(
    flags: ConnectionFlags,
    chosen: Chosen,
    for_text: str | None,
    tapping: StartTap | None = None,
    *,
    with_silenced: bool,
    audit_s: float | None = None,
) -> tuple[Report, ServerReading]:
    import asyncio

    from natstui.cli.health.look import look_at
    from natstui.cli.health.report import report_on

    for_s = None if for_text is None else parse_seconds(for_text, "--for")
    settings, connection = flags.resolve()
    monitor = settings.monitor
    interval_s = min(monitor.interval_s, interval_seconds("1s"))
    limit = monitor.max_requests_per_s
    watched = asyncio.run(look_at(connection, interval_s, for_s, limit, tapping, audit_s))
    state, problem = watched.state, watched.problem
    report = report_on(
        state, chosen, problem, with_silenced=with_silenced, watched_s=watched.watched_s
    )
    return replace(report, audit=watched.audit), watched


def _recorded(
    flags: ConnectionFlags, chosen: Chosen, session: str, sessions: str | None
) -> Report:
    from natstui.cli.health.report import report_on
    from natstui.cli.sessions.options import library, progress
    from natstui.session.library import find
    from natstui.session.share.recorded_findings import recorded_findings

    if flags.server or flags.context or flags.profile or flags.account:
        raise UsageError(
            "--session judges a recording: leave --server, --context, --profile, --account out"
        )
    folder = find(library(sessions, flags.config), session)
    state, over, damage = recorded_findings(folder, progress("judging"))
    return report_on(state, chosen, "; ".join(damage) or None, over)


def _consumer(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    stream, slash, consumer = text.partition("/")
    if not (stream and slash and consumer):
        raise UsageError(f"--consumer {text!r}: write it as STREAM/CONSUMER")
    return stream, consumer
