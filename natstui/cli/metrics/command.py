"""`natstui metrics`: streams, consumers and account for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from natstui.cli.options import ConnectionFlags, one_account_flags, parse_interval_seconds
from natstui.cli.sections import command

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings

_REPEATED_CANCEL_INTERVAL_S = 10.0


@command()
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:9777", show_default=True,
    help="Address for scrapes; with port 0 a free port is chosen.",
)  # fmt: skip
@click.option("--interval", metavar="TIME", help="Interval of polls: 500ms, 2s.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print the address as JSON.")
@one_account_flags
def metrics(flags: ConnectionFlags, listen: str, interval: str | None, as_json: bool) -> None:
    """Serve metrics for Prometheus.

    Serves metrics of streams, consumers and account as OpenMetrics, until it is stopped. Names and
    labels match the jetstream_ metrics of prometheus-nats-exporter, for one account. natstui_up is
    0, and values of the server are left out, without a connection and once the next poll is 4 s
    late, after 5 s at least.
    """
    import asyncio

    settings, connection = flags.resolve()
    interval_s = parse_interval_seconds(interval) if interval else settings.monitor.interval_s
    asyncio.run(_serve_until_stopped(settings, connection, listen, interval_s, as_json=as_json))


async def _serve_until_stopped(
    settings: Settings, connection: Connection, listen: str, interval_s: float, *, as_json: bool
) -> None:
    import asyncio

    from natstui.cli.metrics.exposition import LatestState
    from natstui.cli.metrics.serving import serve_metrics
    from natstui.engine.live import watch_server
    from natstui.engine.stopping import make_stop_event
    from natstui.jetstream.polling.control import PollControl

    control, max_requests_per_s = PollControl(interval_s), settings.monitor.max_requests_per_s
    latest_state, stop_event = LatestState(control), make_stop_event()
    with serve_metrics(listen, "--listen", lambda: latest_state.state, as_json=as_json):
        stop_and_watch_tasks = {
            asyncio.ensure_future(stop_event.wait()),
            asyncio.ensure_future(
                watch_server(
                    connection, control, latest_state, max_requests_per_s, lambda _client: None
                )
            ),
        }
        finished_tasks, pending_tasks = await asyncio.wait(
            stop_and_watch_tasks, return_when=asyncio.FIRST_COMPLETED
        )
        while pending_tasks:
            for task in pending_tasks:
                task.cancel()
            # What comes while a connection is being made can get lost, and nothing is lost here.
            _, pending_tasks = await asyncio.wait(
                pending_tasks, timeout=_REPEATED_CANCEL_INTERVAL_S
            )
        for task in finished_tasks:
            task.result()
