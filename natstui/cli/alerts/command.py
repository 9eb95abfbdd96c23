"""`natstui alert`: watches a server and sends findings, or tests the rules on a recording."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from natstui.clean import clean_line
from natstui.cli.json_line import print_json
from natstui.cli.options import ConnectionFlags, one_account_flags
from natstui.cli.sections import command
from natstui.errors import SessionError
from natstui.units import counted, moment_text

if TYPE_CHECKING:
    from natstui.cli.alerts.notices import Notice
    from natstui.config import Connection
    from natstui.config.settings import Settings

_UNSENT_NOTICES_TIMEOUT_S = 3.0
"""After a signal, how long waiting notices are sent, so that the process ends within 5 s."""
_REPEATED_CANCEL_INTERVAL_S = 0.5


@command()
@click.option(
    "--dry-run", "session", metavar="SESSION",
    help="Send nothing: print the notifications that this recording would have caused.",
)  # fmt: skip
@click.option("--sessions", metavar="DIR", help="Folder of the recordings.")
@click.option(
    "--json", "-j", "as_json", is_flag=True, help="Print one JSON object per notification."
)
@click.option(
    "--confirm", metavar="SUBJECTS",
    help="In production: the subjects of the rules, separated by commas, to confirm.",
)  # fmt: skip
@one_account_flags
def alert(
    flags: ConnectionFlags,
    session: str | None,
    sessions: str | None,
    as_json: bool,
    confirm: str | None,
) -> None:
    """Notify of findings: webhook, command, bell.

    Uses the rules [alerts.NAME] of the configuration. Runs until it is stopped. Prints a line for
    each notification: one when a finding begins, and one when it ends. Of a notification that is
    published to a subject, it is not known whether somebody receives it.
    """
    import asyncio

    from natstui.cli.alerts.sending import check_alerts, subjects_of
    from natstui.cli.manage.writing import confirm_name

    if session is not None:
        _test_rules_on_recording(flags, session, sessions, as_json=as_json)
        return
    settings, connection = flags.resolve()
    check_alerts(settings.alerts, connection)
    if (subjects := subjects_of(settings.alerts)) and connection.production:
        prompt = f"This is production: findings are published to {', '.join(subjects)}"
        confirm_name(
            connection, ",".join(subjects), clean_line(prompt), yes=False, confirm=confirm
        )
    asyncio.run(_watch_and_notify(settings, connection, as_json=as_json))


def _print_notice(notice: Notice, *, as_json: bool) -> None:
    from natstui.cli.alerts.sending import notice_json

    if as_json:
        print_json(notice_json(notice))
        return
    click.echo(_notice_line(notice))


def _notice_line(notice: Notice) -> str:
    finding = notice.finding
    at_us = finding.since_us if finding.until_us is None else finding.until_us
    finding_text = (
        f"{finding.kind.severity} {finding.kind.code} {finding.entity.text}: "
        f"{finding.kind.word}, {finding.text}"
    )
    return clean_line(f"{moment_text(at_us)} {notice.alert} {notice.status} {finding_text}")


def _test_rules_on_recording(
    flags: ConnectionFlags, session: str, sessions: str | None, *, as_json: bool
) -> None:
    from natstui.cli.alerts.notices import Notices
    from natstui.cli.alerts.sending import check_alerts
    from natstui.cli.sessions.options import library_folder
    from natstui.session.library import find_session
    from natstui.session.read.findings import iterate_states
    from natstui.session.share.recorded_findings import describe_unreadable_parts

    alerts = flags.load().settings.alerts
    check_alerts(alerts, None)
    folder: Path = find_session(library_folder(sessions, flags.config), session)
    notices, opened_count_by_rule = Notices(alerts), Counter[str]()
    for state in iterate_states(folder):
        for notice in notices.update(state.findings, state.now_at_us):
            _print_notice(notice, as_json=as_json)
            opened_count_by_rule[notice.alert] += notice.status == "open"
    for name in alerts:
        if as_json:
            print_json({"alert": name, "fired_count": opened_count_by_rule[name]})
            continue
        fired_times_text = (
            "once" if opened_count_by_rule[name] == 1 else f"{opened_count_by_rule[name]} times"
        )
        click.echo(f"{name} would have fired {fired_times_text}")
    if damage_texts := describe_unreadable_parts(folder):
        raise SessionError(
            f"{folder.name}: {'; '.join(damage_texts)}; the alerts were tried on what can be read"
        )


async def _watch_and_notify(settings: Settings, connection: Connection, *, as_json: bool) -> None:
    import asyncio
    import time

    from natstui.cli.alerts.notices import Notices
    from natstui.cli.alerts.sending import NoticeSender, subjects_of
    from natstui.cli.metrics.exposition import LatestState
    from natstui.engine.live import watch_server
    from natstui.engine.stopping import make_stop_event
    from natstui.jetstream.polling.control import PollControl

    control = PollControl(settings.monitor.interval_s)
    max_requests_per_s = settings.monitor.max_requests_per_s
    latest_state, stop_event = LatestState(control), make_stop_event()
    notices = Notices(settings.alerts)
    sender = NoticeSender(settings.alerts, lambda text: click.echo(clean_line(text), err=True))
    watch_task = asyncio.ensure_future(
        watch_server(
            connection,
            control,
            latest_state,
            max_requests_per_s,
            lambda client: setattr(sender, "client", client),
        )
    )
    stop_task = asyncio.ensure_future(stop_event.wait())
    start_text = f"watching for {counted(len(settings.alerts), 'alert')}"
    if subjects := subjects_of(settings.alerts):
        start_text += f"; it is not known who receives what is published to {', '.join(subjects)}"
    click.echo(clean_line(start_text), err=True)
    try:
        while not (watch_task.done() or stop_task.done()):
            await asyncio.wait(
                {watch_task, stop_task},
                timeout=control.interval_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            # By the wall clock: what is wrong without a connection grows older, too.
            for notice in notices.update(
                latest_state.state.findings, time.time_ns() // 1000, sender.failure_findings()
            ):
                _print_notice(notice, as_json=as_json)
                sender.send(notice)
        if watch_task.done():
            watch_task.result()
    finally:
        await sender.finish(_UNSENT_NOTICES_TIMEOUT_S)
        pending_tasks = {watch_task, stop_task}
        while pending_tasks:
            for task in pending_tasks:
                task.cancel()
            # What comes while a connection is being made can get lost.
            _, pending_tasks = await asyncio.wait(
                pending_tasks, timeout=_REPEATED_CANCEL_INTERVAL_S
            )
