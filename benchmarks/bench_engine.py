"""The load engine beside nats-py and, where found, `nats bench`: what `natstui bench vs` prints.

Five rounds of every pattern on a server of their own. `NATSTUI_BENCH_SCALE=0.1` makes everything
a tenth as long, `NATSTUI_BENCH_ONLY="js pub"` takes the patterns with that in their name.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace

from natstui.bench.versus.measure import Rounds
from natstui.bench.versus.rows import Row, chosen
from natstui.bench.versus.table import table_text
from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker

ROUNDS = 5
SCALE = float(os.environ.pop("NATSTUI_BENCH_SCALE", "1"))
ONLY = tuple(os.environ.pop("NATSTUI_BENCH_ONLY", "").split())


def scaled(row: Row) -> Row:
    """Return a row with a part of its messages."""
    return replace(row, most_msgs=max(round(row.most_msgs * SCALE), 1000))


def main() -> None:
    """Measure and print."""
    rows = [scaled(row) for row in chosen(ONLY)]
    with Broker() as broker:

        def tell(text: str) -> None:
            print(text, file=sys.stderr, flush=True)

        rounds = Rounds(Connection(servers=(broker.url,)), rows, tell)
        print(table_text(asyncio.run(rounds.run(ROUNDS))))
