"""Clients that a tap found, as lines and as JSON: those that pull, and those that publish."""

from __future__ import annotations

import time
from collections.abc import Sequence

from natstui.cli.clients.rows import connection_json, place_cells, place_columns
from natstui.cli.text_table import Column, stdout_width, table
from natstui.model.clients.requests import Asker, TappedRequests
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text

COST = ("elapsed_s", "ended", "read_msgs", "read_bytes", "questions_count", "anonymous_msgs",
        "gone_msgs")  # fmt: skip
_SHOWN_COUNT = 3


def asker_lines(
    heard: TappedRequests,
    count: str,
    about: str,
    *,
    published: bool = False,
    pins: Sequence[str] = (),
) -> list[str]:
    """Return the clients as a table; `count` and `about` are the titles of what they asked.

    What was `published` has a size; others got messages, and may have sent one of the `pins`.
    """
    if not heard.askers:
        return ["no client was found"]
    columns = (
        *place_columns(),
        Column(count),
        Column("SIZE" if published else "DELIVERED", drop_order=2),
        Column(about, numeric=False, shrinks=True),
        Column("LAST SEEN"),
        *([Column("PINNED", numeric=False)] if pins else ()),
    )
    rows = [_cells(asker, published, pins) for asker in heard.askers]
    return table(columns, rows, stdout_width())


def _cells(one: Asker, published: bool, pins: Sequence[str]) -> list[str]:
    ago_s = max(0.0, time.time() - one.last_at_us / 1e6)
    if one.connection is not None:
        cells = place_cells(one.connection)
    else:
        unknown = [UNKNOWN] * (len(place_columns()) - 1)
        cells = [f"account {one.account}" if one.account else "another account", *unknown]
    more = len(one.about) - _SHOWN_COUNT
    about = ", ".join(one.about[:_SHOWN_COUNT]) + (f" +{more}" if more > 0 else "")
    cells.append(count_text(one.requests_count))
    got = count_text(one.delivered_msgs)
    cells.append(bytes_text(one.request_bytes) if published else got)
    cells += [about, f"{duration_text(ago_s)} ago"]
    return [*cells, ", ".join(pin for pin in pins if pin in one.pins)] if pins else cells


def asker_json(one: Asker, count: str, about: str) -> dict[str, object]:
    """Return a client as an object of JSON; `count` and `about` name what it asked."""
    return {
        "connection": None if one.connection is None else connection_json(one.connection),
        "account": one.account,
        count: one.requests_count,
        "request_bytes": one.request_bytes,
        about: list(one.about),
        "last_at_us": one.last_at_us,
        "delivered_msgs": one.delivered_msgs,
        "longest_wait_s": one.longest_wait_s,
        "pins": list(one.pins),
    }
