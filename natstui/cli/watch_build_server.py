"""State → the rows of the server and the account. Pure."""

from __future__ import annotations

import msgspec

from natstui.cli.watch_rows_server import AccountRow, ServerRow
from natstui.cli.watch_values import values
from natstui.model.poll_cost import own_requests_per_s
from natstui.model.state import State


def server_row(state: State) -> ServerRow | None:
    """Return the connection and its server; None before the first try."""
    link = state.link
    if link is None:
        return None
    cost = state.costs[-1].cost if state.costs else None
    computed = {
        "kind": "server",
        "name": link.server_name,
        "at_us": state.now_at_us,
        "link": link.state,
        "url": link.server_url,
        "version": link.server_version,
        "api_rtt_us": cost.api_rtt_us if cost else None,
        "own_requests_per_s": own_requests_per_s(state.costs),
        "poll_interval_us": cost.interval_us if cost else None,
        "backoff_reason": cost.backoff_reason if cost else None,
    }
    return msgspec.convert({**values(link), **computed}, ServerRow)


def _api_requests_per_s(state: State) -> float | None:
    """Return the growth of the account's own counter between the two newest polls."""
    counts = [(c.mono_us, c.api_requests_count) for c in state.costs[-2:]]
    if len(counts) < 2 or counts[0][1] is None or counts[1][1] is None:
        return None
    elapsed_us, grown = counts[1][0] - counts[0][0], counts[1][1] - counts[0][1]
    return grown * 1e6 / elapsed_us if elapsed_us > 0 and grown >= 0 else None


def account_row(state: State) -> AccountRow | None:
    """Return the account's use and limits; None where it cannot be read."""
    if state.account is None:
        return None
    computed = {
        "name": state.link.account if state.link else None,
        "at_us": state.now_at_us,
        "api_requests_per_s": _api_requests_per_s(state),
    }
    return msgspec.convert({**values(state.account), **computed}, AccountRow)
