"""The table keeps its promises to the eye: rows stay under the cursor, lines change alone."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.style import Style
from textual.app import App, ComposeResult
from textual.message import Message

from natstui.tui.kit.table.big_table import BigTable, Cell, ColumnLayout, Sort
from natstui.tui.kit.table.paint import Painter, RowAppearance
from natstui.tui.kit.table.widths import GUTTER_CELLS, compute_layout

COLUMNS = (
    ColumnLayout("name", "Name", 16, flex=1, max_width=40),
    ColumnLayout("msgs", "Messages", 9, "right", priority=1),
    ColumnLayout("rate", "Msg/s", 7, "right", priority=1),
    ColumnLayout("state", "State", 8, priority=2),
    ColumnLayout("trend", "Trend", 12, priority=3, is_sortable=False),
    ColumnLayout("subjects", "Subjects", 24, priority=4),
)


@dataclass
class Rows:
    names: Sequence[str]
    order: Sequence[int] = ()
    msgs: dict[str, int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.order = self.order or range(len(self.names))

    def __len__(self) -> int:
        return len(self.names)

    def key(self, row: int) -> Hashable:
        return self.names[row]

    def cells(self, row: int) -> Sequence[Cell]:
        self.asked.append(row)
        name = self.names[row]
        return (
            Cell(name, "strong"),
            Cell(str(self.msgs.get(name, row))),
            Cell("12.3"),
            Cell("● ok", "ok"),
            Cell("▁▂▃▄▅▆▇█", "accent"),
            Cell("orders.>", "dim"),
        )


class TableApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        yield BigTable(COLUMNS, id="table")

    @property
    def table(self) -> BigTable:
        return self.query_one(BigTable)

    def on_big_table_row_highlighted(self, message: BigTable.RowHighlighted) -> None:
        self.told.append(message)

    def on_big_table_row_selected(self, message: BigTable.RowSelected) -> None:
        self.told.append(message)

    def on_big_table_header_selected(self, message: BigTable.HeaderSelected) -> None:
        self.told.append(message)

    def on_big_table_marks_changed(self, message: BigTable.MarksChanged) -> None:
        self.told.append(message)

    def on_big_table_visible_changed(self, message: BigTable.VisibleChanged) -> None:
        self.told.append(message)

    def lines(self) -> list[str]:
        return [strip.text for strip in self.screen._compositor.render_strips()]


def names(count: int) -> list[str]:
    return [f"S{number:05}" for number in range(count)]


async def test_only_rows_on_the_screen_are_asked_for() -> None:
    app = TableApp()
    rows = Rows(names(100_000))
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(rows)
        await pilot.pause()
        assert set(rows.asked) == set(range(23))
        await pilot.press("G")
        assert app.table.cursor_key == "S99999"
        assert "S99999" in app.lines()[23]
        await pilot.press("g", "j", "j", "k", "pagedown")
        assert app.table.cursor_key == "S00024"


async def test_a_cursor_move_repaints_two_lines() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(Rows(names(1000)))
        await pilot.pause()
        drawn: list[int] = []
        render_line = app.table.render_line
        app.table.render_line = lambda y: drawn.append(y) or render_line(y)  # type: ignore[method-assign,func-returns-value]
        await pilot.press("j")
        assert sorted(drawn) == [1, 2]


async def test_a_refresh_repaints_the_changed_lines_only() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(Rows(names(1000)))
        await pilot.pause()
        drawn: list[int] = []
        render_line = app.table.render_line
        app.table.render_line = lambda y: drawn.append(y) or render_line(y)  # type: ignore[method-assign,func-returns-value]
        app.table.show(Rows(names(1000), msgs={"S00003": 77, "S00500": 1}))
        await pilot.pause()
        assert drawn == [4]


async def test_the_cursor_keeps_its_row_and_its_line_when_rows_are_sorted_anew() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(Rows(names(1000)))
        await pilot.pause()
        await pilot.press(*["down"] * 5)
        app.table.show(Rows(names(1000), order=range(999, -1, -1)), sort=Sort("msgs", True))
        await pilot.pause()
        assert app.table.cursor_key == "S00005"
        assert "S00005" in app.lines()[18]  # near the end the view cannot keep the line
        app.table.show(Rows(names(1000), order=[*range(500, 1000), *range(500)]))
        await pilot.pause()
        assert "S00005" in app.lines()[18]


async def test_an_untouched_table_stays_on_its_first_row() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(Rows(names(100)))
        await pilot.pause()
        app.table.show(Rows(names(100), order=range(99, -1, -1)))
        await pilot.pause()
        assert app.table.cursor_key == "S00099"
        assert app.table.scroll_y == 0


async def test_a_vanished_row_leaves_the_cursor_at_its_place() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(Rows(names(30)))
        await pilot.pause()
        await pilot.press("j", "j")
        app.table.show(Rows([n for n in names(30) if n != "S00002"]))
        await pilot.pause()
        assert app.table.cursor_key == "S00003"
        app.table.show(Rows([]))
        await pilot.pause()
        assert app.table.cursor_key is None
        assert "nothing to show" in "".join(app.lines())
        assert [m.key for m in app.told if isinstance(m, BigTable.RowHighlighted)] == [
            "S00000", "S00001", "S00002", "S00003", None,
        ]  # fmt: skip


order_steps = st.lists(
    st.tuples(st.permutations(range(12)), st.integers(0, 12), st.integers(0, 11)), max_size=6
)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order_steps)
async def test_the_cursor_follows_its_key_through_any_sorting_adding_and_removing(
    steps: list[tuple[list[int], int, int]],
) -> None:
    app = TableApp()
    async with app.run_test(size=(60, 8)) as pilot:
        app.table.show(Rows(names(12)))
        await pilot.pause()
        await pilot.press("j")
        for permutation, kept, wanted in steps:
            before = app.table.cursor_key
            place = app.table.cursor
            shown = [names(12)[i] for i in permutation][:kept]
            app.table.show(Rows(shown))
            if before in shown:
                assert app.table.cursor_key == before
            elif shown:
                assert app.table.cursor == min(place, len(shown) - 1)
            if shown:
                app.table.move(wanted)
                assert app.table.cursor_key == shown[min(wanted, len(shown) - 1)]


async def test_marks_stay_with_their_rows() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(Rows(names(10)))
        await pilot.pause()
        await pilot.press("j", "space", "j", "j", "ctrl+@")
        assert app.table.marks == {"S00001", "S00002", "S00003"}
        app.table.show(Rows(names(10), order=range(9, -1, -1)))
        await pilot.pause()
        assert [line[1:7] for line in app.lines() if line.startswith("✓")] == [
            "S00003", "S00002", "S00001",
        ]  # fmt: skip
        # A row that is filtered out keeps its mark, one that was deleted does not.
        app.table.show(Rows([name for name in names(10) if name != "S00002"], order=(0, 1)))
        assert app.table.marks == {"S00001", "S00003"}
        await pilot.press("ctrl+backslash")
        assert app.table.marks == set()


async def test_titles_sort_rows_open_and_the_arrow_shows_the_way() -> None:
    app = TableApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.table.show(Rows(names(10)), sort=Sort("msgs", True))
        await pilot.pause()
        header = app.lines()[0]
        assert "Messages▼" in header
        await pilot.click(BigTable, offset=(header.index("Msg/s"), 0))
        await pilot.click(BigTable, offset=(header.index("Trend"), 0))
        await pilot.press("greater_than_sign", "less_than_sign", "r")
        told = [m.column_id for m in app.told if isinstance(m, BigTable.HeaderSelected)]
        assert told == ["rate", "rate", "name", "msgs"]
        await pilot.click(BigTable, offset=(4, 3))
        assert app.table.cursor_key == "S00002"
        await pilot.click(BigTable, offset=(4, 4), times=2)
        await pilot.press("down", "enter")
        opened = [m.key for m in app.told if isinstance(m, BigTable.RowSelected)]
        assert opened == ["S00003", "S00004"]


async def test_the_pointer_lights_one_row_and_the_wheel_leaves_the_cursor() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(Rows(names(500)))
        await pilot.pause()
        plain = app.table.render_line(6)
        await pilot.hover(BigTable, offset=(10, 6))
        await pilot.pause()
        lit = app.table.render_line(6)
        assert [s.style for s in lit] != [s.style for s in plain]
        assert lit.text == plain.text
        drawn = dict(app.table._painted_appearances)
        await pilot.hover(BigTable, offset=(20, 6))
        await pilot.pause()
        assert app.table.render_line(6) == lit and app.table._painted_appearances == drawn
        app.table.scroll_to(y=100, animate=False)
        await pilot.pause()
        app.table.show(Rows(names(500), order=range(499, -1, -1)))
        await pilot.pause()
        assert app.table.scroll_y == 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "height"),
    [
        (60, 20),
        pytest.param(80, 24, marks=pytest.mark.long),
        pytest.param(200, 60, marks=pytest.mark.long),
    ],
)
async def test_every_column_is_reachable_at_every_size(width: int, height: int) -> None:
    app = TableApp()
    async with app.run_test(size=(width, height)) as pilot:
        app.table.show(Rows(names(500)))
        await pilot.pause()
        seen = app.lines()[0]
        for _ in COLUMNS:
            await pilot.press("l")
            await pilot.pause()
            seen += app.lines()[0]
            assert app.lines()[1][1:7] == "S00000"
            assert all(len(line) == width for line in app.lines())
        for column in COLUMNS:
            assert column.title in seen
        await pilot.press("h", "h", "h", "h", "h", "h")
        assert app.table.scroll_x == 0


async def test_the_visible_rows_are_told_once_scrolling_rests() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 11)) as pilot:
        app.table.show(Rows(names(500)))
        await pilot.pause(0.5)
        await pilot.press("pagedown", "pagedown")
        await pilot.pause(0.5)
        told = [m.keys for m in app.told if isinstance(m, BigTable.VisibleChanged)]
        assert told[0] == tuple(names(10))
        assert told[-1] == tuple(names(21)[11:])
        assert len(told) <= 3


@given(st.integers(10, 220), st.integers(0, 6))
def test_columns_seen_at_once_are_whole_and_the_rest_begins_behind_the_edge(
    width: int, count: int
) -> None:
    layout = compute_layout(COLUMNS[:count], width)
    seen = layout.columns[: count - layout.hidden_count]
    for placed in seen[1:]:
        assert placed.start + placed.width <= width
    for placed in layout.columns[len(seen) :]:
        assert placed.start >= width
    for left, right in itertools.pairwise(layout.columns):
        assert right.start >= left.start + left.width + 1
    assert len({placed.index for placed in layout.columns}) == count


@pytest.mark.parametrize(
    ("width", "drawn"),
    [
        (26, [("● storing", "green"), ("  ✖2 stuck", "red")]),
        (14, [("● storing", "green"), ("  ✖2…", "red")]),
        (6, [("● sto…", "green")]),
    ],
)
def test_the_end_of_a_cell_has_a_look_of_its_own(width: int, drawn: list[tuple[str, str]]) -> None:
    looks = {"ok": Style(color="green"), "bad": Style(color="red")}
    painter = Painter(lambda look: looks.get(look, Style()))
    cell = Cell("● storing  ✖2 stuck", "ok", len("● storing"), "bad")
    layout = compute_layout([ColumnLayout("status", "STATUS", width, max_width=width)], width * 2)
    strip = painter.row(RowAppearance([cell]), layout, 0, width + GUTTER_CELLS)
    assert strip.cell_length == width + GUTTER_CELLS
    parts = [(part.text.rstrip(), part.style) for part in strip if part.text.strip()]
    assert [(text, style.color.name) for text, style in parts if style and style.color] == drawn
