"""The findings screen: what is wrong now, where it leads, what can be done, and when it ends."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import nats
import pytest
from nats.js import JetStreamContext

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.stream_fields import STREAM_FIELDS
from natstui.model.findings.catalogue import consumers as kinds
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Entity, Finding, Findings, WatchedCondition
from natstui.model.live.snapshot import Account as Usage
from natstui.model.live.state import State
from natstui.model.records.managing import ReadNamesInUse
from natstui.model.records.messages import Answered, BrowseMessages, MessagePage, StoredMessage
from natstui.model.records.record import Configured, Record
from natstui.model.records.recording import ReplayPosition
from natstui.tui.consumers.detail import ConsumerDetail
from natstui.tui.consumers.form import ConsumerForm
from natstui.tui.consumers.screen import count_unlisted_consumers
from natstui.tui.findings.advice import (
    ADVISED_ACTIONS,
    action_request,
    advised_actions,
    find_destination,
)
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView, SortedFindings
from natstui.tui.findings.screen import FindingsScreen
from natstui.tui.findings.text import NO_FINDINGS_TEXT
from natstui.tui.frame.action_keys import SPECS, Target
from natstui.tui.frame.columns import SortAndFilter
from natstui.tui.frame.detail.peek import Peek
from natstui.tui.frame.head.status_text import findings_parts
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.row_order import filter_and_sort_rows
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.widths import compute_layout
from natstui.tui.managing.action import ActionScreen
from natstui.tui.messages.screen import MessagesScreen
from natstui.values import replace
from tests.accounts import Account
from tests.model.builders import snapshot
from tests.session.scenario import START_US
from tests.tui.engine_records import BORN_US, engine_records
from tests.tui.viewer import FedViewer, Viewer, fed, viewing

ACCOUNT = Usage(0, 0, 2, 0, None, None, None, None, 0, 0, 0, 1, None)
HOSTILE = "\x1b]2;x\x07[/]\u202e"


def finding(kind: Kind, since_us: int, name: str = "C", **more: object) -> Finding:
    return Finding(kind, Entity("S", name, 5), since_us, f"text {name}", **more)  # type: ignore[arg-type]


def known(open_ones: list[Finding], over: tuple[Finding, ...] = ()) -> State:
    watched: dict[Entity, tuple[WatchedCondition, ...]] = {}
    for it in open_ones:
        watched[it.entity] = (*watched.get(it.entity, ()), WatchedCondition(it, 0, is_raised=True))
    return State(now_mono_us=1, now_at_us=60_000_000, findings=Findings(watched, over))


def shown(state: State, order: SortAndFilter = FindingsScreen.DEFAULT_ORDER) -> list[list[str]]:
    """Return the rows of the table as text, from the top."""
    view = FindingView(state, 0, SortedFindings(state))
    rows = filter_and_sort_rows(view, FINDING_COLUMNS, order)
    return [[spec.cell(view, row).text for spec in FINDING_COLUMNS] for row in rows]


def test_the_worst_stands_first_then_the_oldest_and_what_is_over_below() -> None:
    state = known(
        [
            finding(kinds.PAUSED, 10_000_000, "warned"),
            finding(kinds.MAX_ACK_PENDING_REACHED, 10_000_000, "less bad"),
            finding(kinds.NO_PULLS, 30_000_000, "younger"),
            finding(kinds.NO_PULLS, 20_000_000, "older"),
        ],
        (
            finding(kinds.NO_PULLS, 1_000_000, "first over", until_us=40_000_000),
            finding(kinds.NO_PULLS, 1_000_000, "last over", until_us=50_000_000),
        ),
    )
    rows = shown(state)
    assert [row[2] for row in rows] == [
        "S › older", "S › younger", "S › less bad", "S › warned",
        "S › last over", "S › first over",
    ]  # fmt: skip
    assert [row[4] for row in rows] == ["40s", "30s", "50s", "50s", "10s ago", "20s ago"]
    told = [one.entity.text.replace(" > ", " › ") for one in state.findings.list_open_findings()]
    assert [row[2] for row in rows[:4]] == told, "one order on all screens"
    for reverse in (False, True):
        assert [row[0] for row in shown(state, SortAndFilter("code", reverse))][4:] == [
            "· over"
        ] * 2


def test_the_line_at_the_top_counts_what_is_open_and_is_calm_without() -> None:
    over = (finding(kinds.NO_PULLS, 1, until_us=2),)
    assert findings_parts(known([], over)) == []
    state = known([finding(kinds.PAUSED, 1, "a"), finding(kinds.NO_PULLS, 1, "b")], over)
    assert findings_parts(state) == [Cell("✖ 1 critical", "bad"), Cell("▲ 1 warning", "warn")]


def test_thousands_of_findings_are_in_order_at_once_and_drawn_only_where_they_are_seen() -> None:
    asked: list[int] = []
    state = known([finding(kinds.PAUSED, number, f"c{number}") for number in range(6_000)])
    view = FindingView(state, 0, SortedFindings(state))
    view.at = lambda row: asked.append(row) or view.sorted_findings.all[row]  # type: ignore[method-assign,func-returns-value]
    assert len(filter_and_sort_rows(view, FINDING_COLUMNS, FindingsScreen.DEFAULT_ORDER)) == 6_000
    assert len(asked) <= 6_000


def test_hostile_names_are_harmless() -> None:
    (row,) = shown(known([finding(kinds.PAUSED, 1, HOSTILE)]))
    assert not set("".join(row)) & set("\x1b\x07\u202e")


@pytest.mark.parametrize("kind", ADVISED_ACTIONS, ids=lambda kind: kind.code)
def test_every_advised_action_exists_and_its_key_stands_in_the_advice(kind: Kind) -> None:
    fields = {
        "edit-consumer": {field.path for field in CONSUMER_FIELDS},
        "edit-stream": {field.path for field in STREAM_FIELDS},
    }
    assert KINDS[kind.code] is kind
    for what in ADVISED_ACTIONS[kind]:
        name, _, field = what.partition(" ")
        key = SPECS[name].key
        named = {key, "."} if key else {"."}
        assert named & set(re.findall("`([^` ]+)`", kind.act)), (what, kind.act)
        if field:
            assert field in fields[name]


def test_advice_has_the_names_that_are_known_as_a_shell_takes_them() -> None:
    poison = Finding(kinds.POISON, Entity("CONSUMER", "C", 5), 1, "", sequences=(17, 9))
    assert "`nats stream rmm CONSUMER 17`" in poison.act
    assert "`nats stream rmm S SEQ`" in finding(kinds.POISON, 1).act
    no_pulls = Finding(kinds.NO_PULLS, Entity("S", "$(x)", 5), 1, "")
    assert "`nats consumer next S '$(x)'`" in no_pulls.act


def test_the_form_of_a_stream_opens_at_the_limit_that_is_reached() -> None:
    entity = Entity("S", "C", 5)
    assert advised_actions(Finding(kinds.LOST_BEFORE_DELIVERY, entity, 1, "")) == (
        "edit-stream max_bytes",
    )
    for number, path in (("max_msgs", "max_msgs"), ("max_age_s", "max_age")):
        lost = Finding(
            kinds.LOST_BEFORE_DELIVERY, entity, 1, "", numbers={"lost_msgs": 5, number: 100}
        )
        assert advised_actions(lost) == (f"edit-stream {path}",)
        assert path in {field.path for field in STREAM_FIELDS}


def test_what_is_done_about_a_finding_is_done_to_what_it_is_about() -> None:
    entity, of_stream = Entity("S", "C", 5), Target("S")
    about = Finding(kinds.POISON, entity, 1, "", sequences=(17, 9))
    for action, message in (
        ("pull", Manage("pull", (Target("S", "C"),))),
        ("undo", Manage("undo")),
        ("delete_message", Manage("delete_message 17", (of_stream,))),
        ("publish-again", Manage("publish", (Target("S", "17"),))),
        ("edit-stream max_age", Manage("edit-stream max_age", (of_stream,))),
        ("pause", Manage("pause", (Target("S", "C", 5),))),
    ):
        opened = action_request(about, action)
        assert (opened.screen_command, opened.targets) == (
            message.screen_command,
            message.targets,
        )
    of_all = Finding(kinds.POISON, Entity("S", "", 5), 1, "")
    assert action_request(of_all, "pause").targets == (Target("S", None, 5),)


def test_no_advice_calls_an_action_by_its_id() -> None:
    ids = [name for name in SPECS if "_" in name]
    named = {kind.code: [it for it in ids if it in kind.act] for kind in KINDS.values()}
    assert {code: its for code, its in named.items() if its} == {}


@pytest.mark.parametrize("width", [80, 120, 200])
def test_where_and_what_have_the_room_in_a_narrow_table(width: int) -> None:
    layout = compute_layout(table_columns(FINDING_COLUMNS), width)
    shown = [it for it in layout.columns if it.start + it.width <= width]
    widths = {it.column.id: it.width for it in shown}
    assert widths["entity"] >= len("ORDERS › shipping-labels")
    assert widths["what"] >= {80: 28, 120: 50, 200: 90}[width]
    assert ("trend" in widths) is (width == 200)


def test_what_is_gone_says_so() -> None:
    assert find_destination(finding(kinds.CONSUMER_DELETED, 1), State()) == "stream S was deleted"


@asynccontextmanager
async def shop(server: Account) -> AsyncIterator[JetStreamContext]:
    """A stream S with three messages."""
    nc = await nats.connect(server.url)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s"])
    for _ in range(3):
        await js.publish("s", b"x")
    try:
        yield js
    finally:
        await nc.close()


def listed(viewer: Viewer) -> list[str]:
    """Return the codes of what is listed as open, from the top."""
    rows = viewer.table.rows
    every = [rows.cells(row) for row in rows.order] if rows is not None else []
    return [cells[1].text for cells in every if cells[0].text != "· over"]


async def raised(viewer: Viewer, code: str) -> None:
    """Wait until a finding is listed as open."""
    await viewer.until(lambda: code in listed(viewer), code)


@pytest.mark.server
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="writable"),
        pytest.param(("--read-only",), id="read-only", marks=pytest.mark.long),
    ],
)
async def test_a_finding_comes_is_silenced_and_heard_of_again_leads_to_its_consumer_and_ends(
    account: Account, flags: tuple[str, ...]
) -> None:
    async with (
        shop(account) as js,
        viewing(account.url, "--interval", "250ms", *flags, panel=True) as viewer,
    ):
        await viewer.press("5")
        # The overview has the same sentence, and is in view until this screen is drawn.
        await viewer.until(lambda: "natstui may read everything" in viewer.words, "what is read")
        assert NO_FINDINGS_TEXT in viewer.text
        config = {"durable_name": "[b]C", "ack_policy": "explicit", "max_ack_pending": 1}
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        await js._nc.request("$JS.API.CONSUMER.DURABLE.CREATE.S.[b]C", body, timeout=20)
        await (await js.pull_subscribe_bind("[b]C", "S")).fetch(1)
        await raised(viewer, "NT-C09")
        assert "S › [b]C" in viewer.words
        assert "1 of 1 ack pending: delivery has stopped" in viewer.words
        assert "ack in the client" in viewer.words
        await viewer.until(lambda: "✖ 1 critical" in viewer.words, "the count at the top")
        await viewer.press("home", "z")
        await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "the question")
        await viewer.press("enter")
        await viewer.until(lambda: "A reason is missing" in viewer.words, "why not")
        await viewer.type("[/] mended")
        await viewer.press("enter")
        await viewer.until(
            lambda: viewer.app.state.findings.list_silenced_findings(), "that it is silenced"
        )
        await viewer.until(lambda: "z silenced" in viewer.words, "that it is shown")
        await viewer.until(lambda: "critical" not in viewer.line(1), "no count")
        assert "1 silenced" in viewer.words and "[/] mended" in viewer.words
        (finding,) = viewer.app.state.findings.list_silenced_findings()
        assert viewer.app.state.findings.find_worst_finding(finding.entity) is None
        await viewer.press("2")
        await viewer.until(lambda: "[b]C" in viewer.rows(), "the consumer")
        assert "max ack pending" not in viewer.rows()["[b]C"]["status"]
        text = viewer.app.screen.query_one(Peek).text
        await viewer.until(lambda: "silenced: [/] mended" in " ".join(str(text.visual).split()))
        await viewer.press("5", "home", "z")
        await viewer.until(
            lambda: not viewer.app.state.findings.list_silenced_findings(), "that it is heard of"
        )
        await viewer.until(lambda: "✖ 1 critical" in viewer.words, "the count at the top")
        assert "z silenced" not in viewer.words
        await viewer.press("1")
        await viewer.until(lambda: "✖ 1 consumer stuck" in viewer.words, "one is stuck")
        await viewer.press("5", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail), "the consumer")
        await viewer.until(lambda: "NT-C09 max ack pending" in viewer.words, "its findings")
        assert "→ ack in the" in viewer.words
        await viewer.press("exclamation_mark")
        await viewer.until(lambda: isinstance(viewer.app.screen, FindingsScreen), "the list")
        await viewer.press("home", "d")
        await viewer.until(lambda: "EVIDENCE" in viewer.words, "the detail")
        if not flags:
            await viewer.press("full_stop")
            await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerForm), "the form")
            await viewer.press("escape")
        await viewer.press("escape")
        await js._nc.request("$JS.API.CONSUMER.DELETE.S.[b]C", b"", timeout=20)
        await viewer.until(lambda: "ended lately" in viewer.words, "that it is over")
        assert "· over" not in viewer.words, "folded until it is wanted"
        await viewer.press("f")
        await viewer.until(lambda: "· over" in viewer.words, "what is over")


def bad_records() -> list[Record]:
    """Return records of a stream whose consumer LOOP gets one message again and again, and whose
    consumer FULL may have no more than one.
    """
    *beginning, configured, _ = engine_records({"S": ("FULL", "LOOP")})
    assert isinstance(configured, Configured)
    full, loop = configured.consumers
    consumers = (
        replace(
            full,
            max_ack_pending_msgs=1,
            config_json='{"durable_name": "FULL", "ack_policy": "explicit", "max_ack_pending": 1}',
        ),
        replace(loop, ack_wait_ns=10**9),
    )
    polls = [
        snapshot(
            second,
            [{"name": "S", "created_at_us": BORN_US, "stored_msgs": 300, "last_seq": 300,
              "consumers_count": 2}],
            [
                {"stream": "S", "name": "FULL", "created_at_us": BORN_US, "ack_pending_msgs": 1,
                 "delivered_stream_seq": 1, "delivered_consumer_seq": 1, "pending_msgs": 299,
                 "waiting_pulls_count": 1},
                {"stream": "S", "name": "LOOP", "created_at_us": BORN_US, "redelivered_msgs": 1,
                 "ack_pending_msgs": 1, "waiting_pulls_count": 1,
                 "delivered_consumer_seq": 100 + 11 * second,
                 "delivered_stream_seq": 100 + 10 * second,
                 "ack_floor_consumer_seq": 50, "ack_floor_stream_seq": 50,
                 "delivered_at_us": START_US + second * 10**6,
                 "acked_at_us": START_US + second * 10**6},
            ],
        )
        for second in range(1, 13)
    ]  # fmt: skip
    return [*beginning, replace(configured, consumers=consumers), *polls]


async def test_a_key_leaves_the_streams_with_a_problem_of_theirs_or_of_a_consumer() -> None:
    async with fed(*engine_records({"S": ("FULL", "LOOP")}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("exclamation_mark")
        await viewer.until(lambda: not viewer.rows(), "nothing is wrong")
        await viewer.feed(*bad_records()[-13:])
        await viewer.until(lambda: "S" in viewer.rows(), "it has a consumer with a problem")


async def to_row(viewer: Viewer, code: str) -> None:
    await raised(viewer, code)
    await viewer.press("home", *["down"] * listed(viewer).index(code))


async def give_page(viewer: FedViewer, pages: int, newer: bool) -> BrowseMessages:
    """Answer the request for a page of messages with message 51; return the request."""
    await viewer.until(lambda: len(viewer.sent(BrowseMessages)) > pages, "a page is requested")
    command = viewer.sent(BrowseMessages)[-1]
    assert command.newer is newer
    page = MessagePage("S", (StoredMessage(51, "s", 1, (), "eA==", 1),), 1, 300, None, None)
    body = msgspec.json.encode(page).decode()
    await viewer.feed(Answered(1, command.command_id, "done", "a page", body))
    return command


@pytest.mark.slow
async def test_findings_lead_to_the_message_and_to_the_field_but_not_in_a_replay() -> None:
    async with fed(*bad_records(), first="findings") as viewer:
        await to_row(viewer, "NT-C05")
        await viewer.press("enter")
        command = await give_page(viewer, 0, newer=True)
        assert command.from_seq == 51
        messages = viewer.app.screen
        assert isinstance(messages, MessagesScreen)
        from_there = "from message 51: NT-C05 poison message of LOOP"
        await viewer.until(lambda: from_there in viewer.words, "the messages")
        assert messages.pages.message is not None
        assert messages.pages.message.stream_seq == 51
        await viewer.press("escape", "full_stop")
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen), "the question")
        assert "51" in viewer.text
        await viewer.press("escape", "2")
        await viewer.until(lambda: "LOOP" in viewer.rows(), "the consumer's row")
        await viewer.press("home", *["down"] * list(viewer.rows()).index("LOOP"), "m")
        await give_page(viewer, 1, newer=True)
        await viewer.until(lambda: from_there in viewer.words, "the same from there")
        assert "S › LOOP" not in viewer.words
        await viewer.press("g")
        await give_page(viewer, 2, newer=False)
        await viewer.until(lambda: "newest first" in viewer.words, "the newest page")

        await viewer.press("escape", "5")
        await viewer.until(lambda: " hints" in viewer.words, "how many there are")
        assert "NT-K02" not in listed(viewer)
        await viewer.press("i", "slash")
        await viewer.type("NT-K02")
        await viewer.press("enter")
        await viewer.until(lambda: listed(viewer) == ["NT-K02"], "the hint")
        await viewer.press("enter")
        await viewer.until(lambda: viewer.sent(ReadNamesInUse), "the form")
        form = viewer.app.screen
        assert isinstance(form, ConsumerForm)
        number = viewer.sent(ReadNamesInUse)[-1].command_id
        await viewer.feed(Answered(1, number, "done", "", '{"consumer_filters": {"LOOP": []}}'))
        await viewer.until(lambda: form.entries.in_use.consumer_filters, "what is in use")
        await viewer.press("ctrl+u", "7")
        await viewer.until(lambda: form.entries.texts == {"max_ack_pending": "7"}, "the field")

        await viewer.press("escape", "down", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, FindingsScreen), "the list")
        position = ReplayPosition(3, 1, 9, 1.0, playing=False, recording=False)
        await viewer.feed(position)
        await viewer.until(lambda: viewer.app.state.replay, "it is a replay")
        await viewer.until(lambda: "Messages" not in viewer.text.splitlines()[-1], "no such key")
        await viewer.press("enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail), "no form")
        await viewer.press("escape", "d")
        await viewer.until(lambda: "EVIDENCE" in viewer.text, "the detail")


@pytest.mark.parametrize(
    ("in_account", "mirror", "expected"),
    [(1, "S", 0), (2, "S", 1), (2, None, 0), (3, "S", 0)],
    ids=["all are listed", "that of a mirror", "nothing is mirrored", "more than mirrors"],
)
def test_consumers_that_no_stream_lists_are_told_of(
    in_account: int, mirror: str | None, expected: int
) -> None:
    *beginning, configured, _ = engine_records({"S": ("C",), "M": ()})
    assert isinstance(configured, Configured)
    mirroring = replace(configured.streams[1], mirror=mirror)
    usage = replace(ACCOUNT, consumers_count=in_account)
    streams = [
        {"name": name, "created_at_us": BORN_US, "consumers_count": count}
        for name, count in (("S", 1), ("M", 0))
    ]
    poll = snapshot(
        1, streams, [{"stream": "S", "name": "C", "created_at_us": BORN_US}], account=usage
    )
    configured = replace(configured, streams=(configured.streams[0], mirroring))
    # Without the account nothing is known of them.
    for last, count in ((poll, expected), (replace(poll, account=None), 0)):
        state = State()
        for record in (*beginning, configured, last):
            state = state.after(record)
        assert count_unlisted_consumers(state) == count


def test_many_of_a_kind_are_one_row_with_how_many_others_there_are() -> None:
    every = [finding(kinds.PAUSED, number, f"c{number}") for number in range(40)]
    state = known([*every, finding(kinds.POISON, 5, "loop")])
    found = SortedFindings(state, is_folding=True)
    view = FindingView(state, 0, found)
    rows = filter_and_sort_rows(view, FINDING_COLUMNS, FindingsScreen.DEFAULT_ORDER)
    cells = [[spec.cell(view, row).text for spec in FINDING_COLUMNS] for row in rows]
    assert [row[2] for row in cells] == ["S › loop", "S › c0 and 39 others"]
    assert found.is_folded and len(found.open) == 41
    assert not SortedFindings(state).is_folded and len(shown(state)) == 41
    few = known(every[:3])
    assert not SortedFindings(few, is_folding=True).is_folded


def test_what_opened_and_ended_again_and_again_is_one_row_with_how_often() -> None:
    over = [
        finding(kinds.NO_PULLS, second, name, until_us=1_000_000 * (second + 1))
        for second in range(9)
        for name in ("a", "b")
    ]
    once = finding(kinds.PAUSED, 1, until_us=30_000_000)
    state = known([finding(kinds.PAUSED, 20_000_000, "a")], (*over, once))
    found = SortedFindings(state, is_folding=True)
    view = FindingView(state, 0, found)
    cells = [[spec.cell(view, row).text for spec in FINDING_COLUMNS] for row in view.rows()]
    assert [(row[2], row[4]) for row in cells] == [
        ("S › a", "40s"), ("S › C", "30s ago"), ("S › b (9 times)", "51s ago"),
        ("S › a (9 times)", "51s ago"),
    ]  # fmt: skip
    assert found.is_folded and len(shown(state)) == 20
    assert len(SortedFindings(state, is_folding=True, with_ended=False).rows) == 1


async def test_a_key_shows_each_of_a_kind_and_folds_them_again() -> None:
    rows = [
        {"stream": "S", "name": f"c{number}", "created_at_us": 7, "leader": "n1", "paused": True}
        for number in range(6)
    ]
    stream = {"name": "S", "created_at_us": 7, "leader": "n1", "consumers_count": 6}
    polls = [snapshot(second, [stream], rows) for second in range(1, 5)]
    async with fed(engine_records()[0], *polls, first="findings") as viewer:
        folded = "alike are folded: a shows each"
        await viewer.until(lambda: folded in viewer.words, "the line above says so")
        assert "S › c0 and 5 others" in viewer.words
        await viewer.press("a")
        await viewer.until(lambda: "S › c5" in viewer.words, "each has a row")
        await viewer.press("a")
        await viewer.until(lambda: "and 5 others" in viewer.words, "they are folded again")
