"""`natstui stuck`: what one consumer waits for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from natstui.cli.complete import complete_consumers, stream_of_consumer_argument
from natstui.cli.health.command import (
    audit_option,
    exit_unknown_on_failure,
    parse_audit_s,
    read_report,
    watch_time_option,
)
from natstui.cli.options import ConnectionFlags, one_account_flags, parse_seconds
from natstui.cli.sections import command
from natstui.cli.text_table import colour_severities
from natstui.errors import UsageError

if TYPE_CHECKING:
    from natstui.model.records.tap import StartTap

_COLOUR_BY_EXIT_CODE = {0: "green", 1: "yellow", 2: "red"}
"""Exit code → the colour of the verdict on a terminal."""


@command()
@stream_of_consumer_argument
@click.argument("consumer", shell_complete=complete_consumers)
@watch_time_option
@click.option(
    "--tap", "tap_text", metavar="TIME",
    help="Read every ack, nak and term of the clients for this time: exact counts, but natstui "
        "receives as many messages. Default: off.",
)  # fmt: skip
@audit_option
@click.option(
    "--facts", "includes_facts", is_flag=True,
    help="Print every fact used to find the cause, with its value and period.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@one_account_flags
@exit_unknown_on_failure
def stuck(
    flags: ConnectionFlags, stream: str, consumer: str, for_text: str | None, tap_text: str | None,
    audit_text: str | None, includes_facts: bool, as_json: bool,
) -> None:  # fmt: skip
    """Explain what one consumer waits for.

    Prints which message is next, and what to do. Exit code: 0 nothing is wrong, 1 warning, 2
    critical, 3 not readable.
    """
    from natstui.cli.health.report import FindingSelection
    from natstui.cli.health.stuck_formats import consumer_json, consumer_lines, has_row

    if tap_text is not None and flags.account is not None:
        from natstui.model.live.permissions import read_only_account_text

        raise UsageError(f"--tap: {read_only_account_text(flags.account)}")
    tap_command = None if tap_text is None else _parse_tap_command(stream, consumer, tap_text)
    selection = FindingSelection(consumer=(stream, consumer), min_severity="info")
    # For one consumer, everything is of interest.
    audit_s = parse_audit_s(flags, audit_text)
    report, reading = read_report(
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
        title = click.style(lines[0], fg=_COLOUR_BY_EXIT_CODE.get(int(report.verdict)), bold=True)
        click.echo("\n".join([title, colour_severities("\n".join(lines[1:]))]))
    if reading.stop_event is not None:
        reading.stop_event.check("reading")
    sys.exit(int(report.verdict))


def _parse_tap_command(stream: str, consumer: str, text: str) -> StartTap:
    from natstui.model.records.tap import MAX_TAP_S, StartTap

    for_s = parse_seconds(text, "--tap")
    if not 0 < for_s <= MAX_TAP_S:
        raise UsageError(f"--tap {text}: it must be longer than 0 and at most {MAX_TAP_S:.0f}s")
    return StartTap(0, stream, consumer, for_s)
