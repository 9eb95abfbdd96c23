"""`natstui alert`: watch a server and tell of findings, or try the rules on a recording."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from natstui.clean import clean_line
from natstui.cli.json_line import print_json
from natstui.cli.options import ConnectionFlags, one_account_flags
from natstui.cli.sections import command
from natstui.units import moment_text

if TYPE_CHECKING:
    from natstui.cli.alerts.notices import Notice
    from natstui.config import Connection
    from natstui.config.settings import Settings

_FINISH_S = 3.0
"""After a signal, notices that wait are sent for so long: the process ends within 5 s."""
_CANCEL_AGAIN_S = 0.5


@command()
@click.option(
    "--dry-run", "session", metavar="SESSION",
    help="Send nothing: print the notifications that this recording would have caused.",
)  # fmt: skip
@click.option("--sessions", metavar="DIR", help="Folder of the recordings.")
@click.option(
    "--json", "-j", "as_json", is_flag=True, help="Print one JSON object per notification."
)
@one_account_flags
def alert(
    flags: ConnectionFlags, session: str | None, sessions: str | None, as_json: bool
) -> None:
    """Notify of findings: webhook, command, bell.

    Uses the rules [alerts.NAME] of the configuration. Runs until it is stopped. Prints a line for
    each notification: one when a finding begins, and one when it ends.
    """
    import asyncio

    from natstui.cli.alerts.sending import check

    if session is not None:
        _dry_run(flags, session, sessions, as_json=as_json)
        return
    settings, connection = flags.resolve()
    check(settings.alerts, read_only=connection.read_only)
    asyncio.run(_watch(settings, connection, as_json=as_json))


def _print(notice: Notice, *, as_json: bool) -> None:
    from natstui.cli.alerts.sending import notice_json

    if as_json:
        print_json(notice_json(notice))
        return
    click.echo(_line(notice))


def _line(notice: Notice) -> str:
    one = notice.finding
    at_us = one.since_us if one.until_us is None else one.until_us
    words = f"{one.kind.severity} {one.kind.code} {one.entity.text}: {one.kind.word}, {one.text}"
    return clean_line(f"{moment_text(at_us)} {notice.alert} {notice.status} {words}")


def _dry_run(flags: ConnectionFlags, session: str, sessions: str | None, *, as_json: bool) -> None:
    from natstui.cli.alerts.notices import Notices
    from natstui.cli.alerts.sending import check
    from natstui.cli.sessions.options import library
    from natstui.session.library import find
    from natstui.session.read.judged import judged_moments

    alerts = flags.load().settings.alerts
    check(alerts, read_only=False)
    folder: Path = find(library(sessions, flags.config), session)
    notices, counts = Notices(alerts), Counter[str]()
    for state in judged_moments(folder):
        for notice in notices.after(state.findings, state.now_at_us):
            _print(notice, as_json=as_json)
            counts[notice.alert] += notice.status == "open"
    for name in alerts:
        if as_json:
            print_json({"alert": name, "fired_count": counts[name]})
            continue
        times = "once" if counts[name] == 1 else f"{counts[name]} times"
        click.echo(f"{name} would have fired {times}")


async def _watch(settings: Settings, connection: Connection, *, as_json: bool) -> None:
    import asyncio
    import time

    from natstui.cli.alerts.notices import Notices
    from natstui.cli.alerts.sending import Sender
    from natstui.cli.metrics.exposition import Latest
    from natstui.engine.live import watch_server
    from natstui.engine.stopping import stopped_by_signal
    from natstui.jetstream.polling.control import PollControl

    control, most = PollControl(settings.monitor.interval_s), settings.monitor.max_requests_per_s
    latest, stop = Latest(control), stopped_by_signal()
    notices = Notices(settings.alerts)
    sender = Sender(settings.alerts, lambda text: click.echo(clean_line(text), err=True))
    watching = asyncio.ensure_future(
        watch_server(
            connection, control, latest, most, lambda client: setattr(sender, "client", client)
        )
    )
    ended = asyncio.ensure_future(stop.wait())
    click.echo(f"watching for {len(settings.alerts)} alerts", err=True)
    try:
        while not (watching.done() or ended.done()):
            await asyncio.wait(
                {watching, ended}, timeout=control.interval_s, return_when=asyncio.FIRST_COMPLETED
            )
            # By the wall clock: what is wrong without a connection grows older, too.
            for notice in notices.after(
                latest.state.findings, time.time_ns() // 1000, sender.failed()
            ):
                _print(notice, as_json=as_json)
                sender.send(notice)
        if watching.done():
            watching.result()
    finally:
        await sender.finish(_FINISH_S)
        going = {watching, ended}
        while going:
            for work in going:
                work.cancel()
            # What comes while a connection is being made can get lost.
            _, going = await asyncio.wait(going, timeout=_CANCEL_AGAIN_S)
