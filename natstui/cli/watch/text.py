"""Rows → tables and sentences for people; only a terminal gets colours."""

from __future__ import annotations

from collections.abc import Iterable

from natstui.clean import clean_line
from natstui.cli.text_table import hanging
from natstui.cli.watch.consumers import ConsumerRow, consumer_table
from natstui.cli.watch.happened import happened_sentence
from natstui.cli.watch.json_lines import Row
from natstui.cli.watch.server import AccountRow, ServerRow, account_sentence, server_sentence
from natstui.cli.watch.streams import StreamRow, stream_table
from natstui.units import local_text


def text_lines(rows: Iterable[Row], width_cells: int | None) -> list[str]:
    """Return what one poll saw, as lines: server, account, what happened, two tables."""
    streams: list[StreamRow] = []
    consumers: list[ConsumerRow] = []
    lines: list[str] = []
    for row in rows:
        match row:
            case StreamRow():
                streams.append(row)
                continue
            case ConsumerRow():
                consumers.append(row)
                continue
            case ServerRow():
                sentence = server_sentence(row)
            case AccountRow():
                sentence = account_sentence(row)
            case _:
                sentence = happened_sentence(row)
        at = local_text(row.at_us)
        said = hanging(f"{at} {clean_line(sentence)}", width_cells, len(at) + 1)
        lines += said.splitlines()
    if streams:
        lines += ["", *stream_table(streams, width_cells)]
    if consumers:
        lines += ["", *consumer_table(consumers, width_cells)]
    return lines
