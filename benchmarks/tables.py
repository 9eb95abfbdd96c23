"""What a frame and a second of refreshing cost: our table and Textual's DataTable.

12 columns on 160 × 40; each second five columns of every row change. Processor time throughout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence

from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import DataTable

from benchmarks._screen import BenchApp
from natstui.tui.kit.sparkline import sparkline
from natstui.tui.kit.table.big_table import BigTable, Cell, ColumnLayout, Sort
from natstui.units import bytes_text, count_text, rate_text

SECONDS = 6
COLUMNS = (
    ColumnLayout("name", "Stream", 20, flex=1),
    *(ColumnLayout(f"n{i}", f"Number {i}", 9, "right", priority=1) for i in range(9)),
    ColumnLayout("state", "State", 8, priority=1),
    ColumnLayout("trend", "Trend", 12, priority=1),
)


class Rows:
    """Columns of numbers; `generation` changes five of them in every row."""

    def __init__(self, names: list[str], generation: int, *, descending: bool) -> None:
        self.names = names
        self.generation = generation
        count = len(names)
        values = [(row * 7919 + generation * 31) % count for row in range(count)]
        self.values = values
        self.order: Sequence[int] = range(count)
        if descending:
            self.order = sorted(range(count), key=values.__getitem__, reverse=True)

    def __len__(self) -> int:
        return len(self.names)

    def key(self, row: int) -> Hashable:
        """Return the name."""
        return self.names[row]

    def cells(self, row: int) -> Sequence[Cell]:
        """Format one row."""
        value = self.values[row]
        still = [Cell(count_text(row * i)) for i in range(1, 5)]
        moving = [Cell(rate_text(value * i / 10)) for i in range(1, 5)]
        trend = sparkline([(value + i * 13) % 50 for i in range(12)], 12)
        size = Cell(bytes_text(row * 1000))
        return (
            Cell(self.names[row], "strong"),
            *still,
            size,
            *moving,
            Cell("● ok", "ok"),
            Cell(trend, "accent"),
        )


class OurApp(BenchApp):
    """Our table alone on the screen."""

    def compose(self) -> ComposeResult:
        """Yield the table."""
        yield BigTable(COLUMNS)


class TheirApp(BenchApp):
    """Textual's table alone on the screen."""

    def compose(self) -> ComposeResult:
        """Yield the table."""
        yield DataTable[str](cursor_type="row")


async def measure(
    app: BenchApp, name: str, pilot: Pilot[None], tick: Callable[[int], Awaitable[None]]
) -> str:
    """Refresh at 1 Hz, then press a key ten times; return the costs as a line."""
    app.median_frame_ms()
    sent = app.written_bytes
    started, cpu = time.monotonic(), time.process_time()
    spent_s = 0.0
    for second in range(SECONDS):
        before = time.process_time()
        await tick(second)
        spent_s += time.process_time() - before
        await asyncio.sleep(max(0.0, started + second + 1 - time.monotonic()))
    share = (time.process_time() - cpu) / (time.monotonic() - started) * 100
    sent = (app.written_bytes - sent) // SECONDS
    frame_ms = app.median_frame_ms()
    for _ in range(10):
        await pilot.press("down")
    return (
        f"{name:28} frame {frame_ms:6.1f} ms, {sent:6} B"
        f"   update {spent_s / SECONDS * 1000:6.1f} ms   CPU at 1 Hz {share:5.1f} %"
        f"   cursor {app.median_frame_ms():5.1f} ms"
    )


async def ours(count: int, *, sorting: bool) -> str:
    """Measure our table; sources are made beforehand, as the engine's side would."""
    names = [f"stream-{row:06}" for row in range(count)]
    sources = [Rows(names, generation, descending=sorting) for generation in range(SECONDS)]
    app = OurApp()
    async with app.run_test(size=(160, 40)) as pilot:
        table = app.query_one(BigTable)
        table.show(Rows(names, 99, descending=sorting))
        await pilot.pause()
        await pilot.press("down", "down")

        async def tick(second: int) -> None:
            table.show(sources[second], sort=Sort("n5", True) if sorting else None)

        label = f"BigTable {count:,}" + (", sorted anew" if sorting else "")
        return await measure(app, label, pilot, tick)


async def theirs(count: int) -> str:
    """Measure DataTable with the same cells: five columns of every row are set each second."""
    names = [f"stream-{row:06}" for row in range(count)]
    app = TheirApp()
    async with app.run_test(size=(160, 40)) as pilot:
        table = app.query_one(DataTable)
        for column in COLUMNS:
            table.add_column(column.title, key=column.id, width=column.width)
        first = Rows(names, 99, descending=False)
        for row in range(count):
            table.add_row(*(cell.text for cell in first.cells(row)), key=names[row])
        await pilot.pause()

        async def tick(second: int) -> None:
            rows = Rows(names, second, descending=False)
            for row in range(count):
                value = rate_text(rows.values[row] / 10)
                for column in ("n5", "n6", "n7", "n8", "trend"):
                    table.update_cell(names[row], column, value)

        return await measure(app, f"DataTable {count:,}", pilot, tick)


def main() -> None:
    """Print one line per table and size."""
    for count in (10_000, 100_000):
        for sorting in (False, True):
            print(asyncio.run(ours(count, sorting=sorting)), flush=True)
    print(asyncio.run(theirs(10_000)), flush=True)


if __name__ == "__main__":
    main()
