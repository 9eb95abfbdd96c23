"""The tables of streams and consumers name what has no row: it is away, or not run."""

from __future__ import annotations

import pytest

from tests.model.builders import snapshot
from tests.tui.engine_records import BORN_US, engine_records
from tests.tui.viewer import fed


@pytest.mark.slow
async def test_consumers_without_a_row_are_named_above_the_table() -> None:
    streams = ("S", "T")
    rows = [{"name": name, "created_at_us": BORN_US} for name in streams]
    consumers = [{"stream": name, "name": "stays", "created_at_us": BORN_US} for name in streams]
    away = snapshot(
        2, rows, consumers, unreachable_consumers=tuple((name, "newer") for name in streams)
    )
    records = engine_records({name: ["stays"] for name in streams})
    async with fed(*records, away, first="consumers") as viewer:
        await viewer.until(
            lambda: "2 not reachable: S newer, T newer" in viewer.text, "both names"
        )
        await viewer.press("1")
        await viewer.until(lambda: "S" in viewer.rows(), "the streams")
        await viewer.press("enter")
        await viewer.until(lambda: "1 not reachable: newer" in viewer.text, "its consumer")
