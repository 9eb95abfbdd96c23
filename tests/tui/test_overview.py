"""The overview: what it says without a key, in every size, and where each row leads."""

from __future__ import annotations

import re
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Record
from natstui.tui.consumers.detail import ConsumerDetail
from natstui.tui.events.screen import EventsScreen
from natstui.tui.findings.detail import FindingDetail
from natstui.tui.frame.head.tabs import TABS, tab_cells, tab_count_cells
from natstui.tui.frame.messages import Open
from natstui.tui.kit.styles import style_of
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe_cell
from natstui.tui.overview.layout import arrange_panels
from natstui.tui.overview.panels import PanelId, cut_sentence
from natstui.tui.overview.screen import OverviewScreen, PanelTable
from natstui.tui.servers.screen import ServerScreen
from natstui.tui.streams.detail import StreamDetail
from natstui.tui.streams.screen import StreamsScreen
from tests.jetstream.test_connections import as_user
from tests.looks.showing import OVER_S, RECORDING, goes_to
from tests.model.builders import snapshot
from tests.tui.engine_records import BORN_US, engine_records
from tests.tui.viewer import Viewer, fed, replaying, viewing

STREAMS = {"ALPHA": (), "BETA": ("one",)}


def overview(viewer: Viewer) -> OverviewScreen:
    assert isinstance(viewer.app.screen, OverviewScreen)
    return viewer.app.screen


def panel(viewer: Viewer, id: PanelId) -> list[list[str]]:
    """Return the rows of a panel as text."""
    source = overview(viewer).tables[id].source
    return [[cell.text for cell in source.cells(row)] for row in source.order]


def polls(begun_s: int = 2, pending_msgs: int | None = None) -> list[Record]:
    """Return polls of a stream that grows and of a consumer that nobody reads, or that has this
    many pending.
    """
    return [
        snapshot(
            at_s,
            [
                {"name": "ALPHA", "created_at_us": BORN_US, "last_seq": 1},
                {"name": "BETA", "created_at_us": BORN_US, "last_seq": at_s * 20},
            ],
            [
                {
                    "stream": "BETA",
                    "name": "one",
                    "created_at_us": BORN_US,
                    "pending_msgs": at_s * 20 if pending_msgs is None else pending_msgs,
                    "delivered_stream_seq": 0 if pending_msgs is None else at_s * 20,
                }
            ],
        )
        for at_s in range(begun_s, begun_s + 128, 14)
    ]


@pytest.mark.slow
async def test_each_row_leads_on_and_the_arrows_go_from_panel_to_panel() -> None:
    async with fed(*engine_records(STREAMS), first="overview") as viewer:
        await viewer.feed(*polls())
        await viewer.until(lambda: panel(viewer, "wrong"), "something is wrong")
        assert "BETA › one" in panel(viewer, "wrong")[0][1]
        assert panel(viewer, "busiest")[0][:2] == ["BETA", "20.0"]
        await viewer.until(lambda: panel(viewer, "lagging")[0][:2] == ["one", "2560"])
        tables = overview(viewer).tables
        assert viewer.app.focused is tables["wrong"]
        await viewer.press("d")
        await viewer.until(lambda: isinstance(viewer.app.screen, FindingDetail), "the finding")
        await viewer.press("escape", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail), "the consumer")
        await viewer.press("escape", "end", "down")
        assert viewer.app.focused is tables["servers"]
        await viewer.press("up")
        assert viewer.app.focused is tables["wrong"]
        await viewer.press("tab", "tab", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamDetail), "the stream")
        await viewer.press("escape", "tab", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail), "the consumer")
        await viewer.press("escape", "tab", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, EventsScreen), "the events")
        await viewer.press("0", "0")
        assert isinstance(viewer.app.screen, OverviewScreen)


async def test_a_finding_that_ends_while_it_is_looked_at_says_so_and_offers_no_silence() -> None:
    async with fed(*engine_records(STREAMS), first="overview") as viewer:
        await viewer.feed(*polls())
        await viewer.until(lambda: panel(viewer, "wrong"), "something is wrong")
        await viewer.press("d")
        await viewer.until(lambda: isinstance(viewer.app.screen, FindingDetail), "the finding")
        await viewer.settle()
        await viewer.until(lambda: "z Silence" in viewer.words, "the key")
        for poll in polls(begun_s=142, pending_msgs=0):
            assert isinstance(poll, Snapshot)
            await viewer.feed(poll)
            await viewer.until(lambda at_us=poll.taken_at_us: viewer.app.state.now_at_us >= at_us)
            await viewer.settle()
            if "·  over" in viewer.text:
                break
        await viewer.until(lambda: "z Silence" not in viewer.words, "no key")
        assert "·  over" in viewer.text


async def test_it_says_so_when_nothing_is_wrong_and_when_nothing_is_known() -> None:
    async with fed(engine_records()[0], first="overview") as viewer:
        assert "waiting for the first poll" in viewer.words
        await viewer.feed(*engine_records(STREAMS)[1:])
        await viewer.until(lambda: "natstui found nothing wrong" in viewer.words)
        assert panel(viewer, "lagging") == []
        assert "no message is pending" in viewer.words


@pytest.mark.long
@pytest.mark.slow
async def test_a_recording_shows_it_without_a_key_and_cuts_no_sentence_in_any_size() -> None:
    async with replaying(RECORDING, size=(120, 40), first="overview") as viewer:
        await goes_to(viewer, OVER_S)
        await viewer.until(lambda: len(panel(viewer, "wrong")) == 10, "all that is wrong")
        for size in ((120, 40), (80, 24), (60, 20)):
            await viewer.pilot.resize_terminal(*size)
            await viewer.settle()
            await fits(viewer, size)


async def fits(viewer: Viewer, size: tuple[int, int]) -> None:
    """Assert that the overview of the recording has its lines in this size."""
    await viewer.until(lambda: "✖3 ▲7" in viewer.words, f"what is wrong at {size}")
    assert "poison message" in viewer.words
    if size[0] >= 80:
        # Every problem has its line, also on the smallest.
        await viewer.until(
            lambda: viewer.text.count("✖ ") + viewer.text.count("▲ ") >= 12,
            "ten lines and the counts",
        )
        text = viewer.words
        assert "TELEMETRY" in text and "legacy-erp" in text and "STORAGE" in text
        if size == (80, 24):
            assert "3 servers · n1 leads 8 of 11 streams" in text
        else:
            assert {"n1", "n2"} <= {row[0] for row in panel(viewer, "servers")}
    else:
        assert re.search(r"Wrong now ✖3 ▲7 \d of 10", viewer.words), "it says that it is cut"
    tables = overview(viewer).query(PanelTable)
    regions = [table.region for table in tables if table.display]
    screen = viewer.app.screen.region
    assert all(region in screen for region in regions)
    assert all(a == b or not a.overlaps(b) for a in regions for b in regions)
    if size[0] < 80:
        return
    text = viewer.text
    lines = [line for line in text.splitlines() if line[:4].strip("│▌ ") in ("✖", "▲")]
    assert len(lines) >= 4, "the panel has its height"
    for line in lines:
        first = line[1:].partition("│")[0].rstrip()
        assert re.search(r"\S…", first) is None, first
    assert "poison message: message 1 was delivered 5 times" in text
    # The lines of the replay below take none of what the panels need.
    last = overview(viewer).tables["events"]
    assert not last.display or last.size.height >= 1, "it shows an event, not its frame alone"


def test_lines_go_to_what_is_wrong_first_and_all_are_used() -> None:
    many: dict[PanelId, int] = dict.fromkeys(
        ("wrong", "servers", "busiest", "lagging", "events"), 50
    )
    for width in (60, 80, 99, 100, 120, 200):
        for height in range(13, 60):
            list_bands = arrange_panels(width, height, many)
            assert sum(band[0].height for band in list_bands) == height
            assert all(sum(place.width for place in band) == width for band in list_bands)
            assert list_bands[0][0].id == "wrong"
    few = arrange_panels(80, 20, many | {"wrong": 4, "servers": 1})
    assert [(band[0].id, band[0].rows_count) for band in few] == [
        ("wrong", 4), ("servers", 1), ("busiest", 4), ("events", 1),
    ]  # fmt: skip
    # More of what is wrong before the servers, and those before the events.
    assert [band[0][::2] for band in arrange_panels(80, 20, many)] == [
        ("wrong", 16),
        ("busiest", 4),
    ]
    ten = arrange_panels(80, 18, many | {"wrong": 10})
    assert [(band[0].id, band[0].rows_count) for band in ten] == [("wrong", 10), ("busiest", 3)]
    with_systems = arrange_panels(120, 36, many | {"systems": 3})
    assert with_systems[0][0].id == "systems"


def test_tabs_have_their_names_where_there_is_room_and_the_current_one_always() -> None:
    counted = {"streams": Cell("12", "dim"), "findings": Cell("✖4 ▲8", "bad")}

    def line(width: int) -> str:
        tabs = tab_cells("streams", counted, {}, width)
        return "".join(cell.text for _, cells in tabs for cell in cells)

    assert "1 Streams 12" in line(120) and "5 Findings ✖4 ▲8" in line(120)
    narrow = line(80)
    assert "1 Streams 12" in narrow and "5·✖4 ▲8" in narrow and "Findings" not in narrow
    assert len(narrow) <= 80 and len(line(120)) <= 120
    assert tab_count_cells([]) == {}
    # With every count there is room for the names at 120 columns, not for a space behind each.
    counted |= {"consumers": Cell("15"), "server": Cell("1"), "connections": Cell("2")}
    counted |= {"buckets": Cell("2"), "benchmark": Cell("●")}
    assert "6 Connections 2 7 Buckets 2 b Bench ●" in line(120)


@pytest.mark.slow
async def test_the_tabs_lead_on_and_fit_and_the_line_below_says_that_it_is_paused() -> None:
    async with fed(*engine_records(STREAMS), first="overview", size=(120, 24)) as viewer:
        await viewer.until(lambda: "1 Streams 2" in viewer.line(0))
        await viewer.press("p")
        await viewer.until(lambda: viewer.line(1).startswith("  PAUSED "), "at once", s=2)
        viewer.app.parts.engines.shown_follower._polled_at_s -= 600
        viewer.app.show_state_now()
        await viewer.settle()

        # A click on a tab goes there, and closes what lies on the list.
        for tab, screen in (("Servers", ServerScreen), ("Streams", StreamsScreen)):
            at = viewer.line(0).index(tab)
            await viewer.pilot.click(offset=(at, 0))
            await viewer.until(lambda kind=screen: isinstance(viewer.app.screen, kind))  # type: ignore[misc]
        assert [tab.key for tab in TABS] == list("01234567b")
        assert "PAUSED" in viewer.line(1), "on every screen"
        assert "stale" not in viewer.words and "nothing new" not in viewer.words
        await viewer.press("p")
        await viewer.until(lambda: "PAUSED" not in viewer.words, "it goes on")
        await viewer.press("home", "d")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamDetail), "the detail")
        await viewer.pilot.click(offset=(viewer.line(0).index("Overview"), 0))
        await viewer.until(lambda: isinstance(viewer.app.screen, OverviewScreen), "the list")
        assert len(viewer.app.screen_stack) == 1

        # They fit another size at once, without a newer state.
        await viewer.press("1")
        await viewer.pilot.resize_terminal(80, 24)
        await viewer.until(lambda: "1 Streams 2  2·1" in viewer.line(0), "short")

        # What is opened from elsewhere lights the tab of its list.
        await viewer.press("b")
        await viewer.until(lambda: "b Bench" in viewer.line(0))
        for message, name in ((Open("stream", "BETA"), "1 Streams"),
                              (Open("consumer", "BETA", "one"), "2 Consumers")):  # fmt: skip
            viewer.app.post_message(message)
            await viewer.until(lambda name=name: name in viewer.line(0), name)  # type: ignore[misc]
            assert "Bench" not in viewer.line(0)
        await viewer.press("escape", "escape")
        await viewer.until(lambda: "b Bench" in viewer.line(0), "back")


def test_of_what_is_wrong_each_severity_has_its_own_colour() -> None:
    both = Cell("✖4 ▲8", "bad", 2, "warn")
    cells = dict(tab_cells("streams", {"findings": both}, {}, 120))["findings"]
    assert both in cells
    spans = [(span.start, span.end, str(span.style)) for span in safe_cell(both).spans]
    assert spans == [(0, 2, style_of("bad")), (2, 5, style_of("warn"))]


@pytest.mark.cluster
@pytest.mark.long
async def test_a_killed_server_is_named(tmp_path: Path) -> None:
    with Cluster() as lab:
        urls = [as_user(url, "app") for url in lab.urls]
        nc = await nats.connect(servers=urls)
        await nc.jetstream().add_stream(name="S", subjects=["s"], num_replicas=3)
        await nc.close()
        async with viewing(",".join(urls), first="overview", size=(80, 24)) as viewer:
            await viewer.until(lambda: len(panel(viewer, "servers")) == 3, "three servers", 60.0)
            led = viewer.app.state.streams.columns.leader[0]
            victim = next(
                node for node in lab.nodes
                if node.name != led and node.url not in viewer.app.state.link.server_url  # type: ignore[union-attr, operator]
            )  # fmt: skip
            lab.node(victim.name).kill()
            await viewer.until(
                lambda: any(f"server {victim.name}" in row[1] for row in panel(viewer, "wrong")),
                f"{victim.name} is down",
            )
            rows = {row[0]: row for row in panel(viewer, "servers")}
            assert rows[victim.name][1].startswith("down")


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("max ack pending reached: 64 of 64 ack pending: delivery has stopped", 50,
         "max ack pending reached: 64 of 64 ack pending …"),
        ("no open pulls: 175 pending, no pull request is open", 51,
         "no open pulls: 175 pending, no pull request is open"),
        ("no open pulls: 175 pending, no pull request is open", 40,
         "no open pulls: 175 pending …"),
        ("poison message: message 1 was delivered 5 times", 40,
         "poison message: message 1 was …"),
        ("paused: delivery is paused until it is resumed or expires", 40,
         "paused: delivery is paused until it is …"),
        ("paused: until it is resumed", 9, "paused …"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_shown_as_far_as_it_fits(text: str, room: int, shown: str) -> None:
    cell = Cell(text, "bad", text.index(":"), "")
    assert cut_sentence(cell, room).text == shown
