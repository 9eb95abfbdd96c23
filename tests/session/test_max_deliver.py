"""The messages dropped after max deliver, read from the advisories of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from natstui.model.records.copies import MaxDeliverDrop
from natstui.model.records.record import Advisory
from natstui.session.read.max_deliver import read_dropped_messages
from natstui.session.read.recording import Recording
from tests.session.making import made
from tests.session.scenario import START_US


def max_deliver(body: str, at_us: int = START_US + 1) -> Advisory:
    return Advisory(at_us, "max_deliver", "S", "C", "dropped after max deliver", body)


@pytest.mark.parametrize(
    "body",
    ["", "not JSON", "[]", "{}", '{"stream_seq": "7"}', '{"stream_seq": 0}', '{"stream_seq": -7}'],
)
def test_an_advisory_whose_body_has_no_sequence_is_counted_as_that(
    tmp_path: Path, body: str
) -> None:
    folder = made(tmp_path, [max_deliver(body), max_deliver('{"stream_seq": 9}', START_US + 2)])
    drops, unidentified_count = read_dropped_messages(Recording(folder), "S", "C")
    assert drops == [MaxDeliverDrop(START_US + 2, 9, None)]
    assert unidentified_count == 1
