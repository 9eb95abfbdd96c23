"""`natstui demo`: a broker and a busy shop of its own, and the viewer on it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from natstui.cli.demo_shop import running_shop
from natstui.errors import BrokerFailed


@click.command()
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep streams and messages in this folder (default: a temporary one).",
)
@click.option("--headless", is_flag=True, help="No viewer: print the URL and run until Ctrl-C.")
def demo(store: Path | None, headless: bool) -> None:
    """Start a real nats-server with a busy shop on it, and watch it.

    Needs no server, no settings and no network. Leaving stops everything it started.
    """
    with running_shop(store) as shop:
        if headless:
            click.echo(shop.url)
            _until_told_to_stop()
            return
        from natstui.cli.open_viewer import ENGINE, open_viewer

        _forget_other_servers()
        open_viewer((*ENGINE, "--server", shop.url))


def _forget_other_servers() -> None:
    """Drop variables that say who to be on another server: the demo's would refuse them."""
    for name in list(os.environ):
        if name.startswith(("NATS_", "NATSTUI_CONNECTION_")):
            del os.environ[name]


def _until_told_to_stop() -> None:
    """Sleep until Ctrl-C, SIGTERM or SIGHUP; raise BrokerFailed when the shop ends by itself."""
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
    # Blocked only now: the shop's process must not inherit deaf ears.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    if signal.sigwait(signals) == signal.SIGCHLD:
        raise BrokerFailed("the demo's broker or traffic ended by itself")
