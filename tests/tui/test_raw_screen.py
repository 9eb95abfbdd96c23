"""The INFO of a stream as the server writes it: JSON, YAML, searched, copied."""

from __future__ import annotations

import json

import pytest

from natstui.model.records.messages import Answered
from natstui.model.records.record import Describe
from tests.tui.engine_records import engine_records
from tests.tui.viewer import fed


@pytest.mark.slow
async def test_a_stream_is_shown_raw_searched_and_copied() -> None:
    info = {"config": {"name": "ORDERS", "subjects": ["orders.>"]}, "state": {"messages": 0}}
    async with fed(*engine_records({"ORDERS": ()}), size=(100, 30)) as viewer:
        await viewer.until(lambda: "ORDERS" in viewer.rows(), "no stream in the table")
        await viewer.press("y")
        await viewer.until(lambda: viewer.sent(Describe), "it is requested")
        (request,) = viewer.sent(Describe)
        assert (request.stream, request.consumer) == ("ORDERS", None)
        await viewer.feed(Answered(1, request.command_id, "done", "INFO", json.dumps(info)))
        await viewer.until(lambda: '"name": "ORDERS"' in viewer.text, "no JSON")
        await viewer.press("slash")
        await viewer.type("subjects")
        await viewer.press("enter")
        await viewer.until(lambda: "match 1 of" in viewer.words, "no match")
        await viewer.press("c")
        assert json.loads(viewer.app.clipboard) == info
        await viewer.press("y")
        await viewer.until(lambda: "name: ORDERS" in viewer.words, "no YAML")
        await viewer.press("escape")
        await viewer.until(lambda: "STREAM" in viewer.text, "not back")
