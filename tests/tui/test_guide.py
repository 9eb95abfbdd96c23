"""The guide of the demo: each step ends when the user did what it says, and leads to the next."""

from __future__ import annotations

import json
from pathlib import Path

import nats
import pytest
from nats.js.api import ConsumerConfig
from textual.widgets._toast import Toast

from natstui.model.findings.catalogue.consumers import MAX_ACK_PENDING_REACHED
from natstui.model.live.state import State
from natstui.model.records.benchmark import BenchmarkPlanned
from natstui.model.records.managing import Change
from natstui.model.records.messages import Answered
from natstui.model.records.recording import RecordingChanged, ReplayPosition, StartRecording
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.controls import guide
from natstui.tui.app.controls.guide import GUIDE_STEPS
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.consumers.screen import ConsumersScreen
from natstui.tui.events.screen import EventsScreen
from natstui.tui.findings.screen import FindingsScreen
from natstui.tui.frame.live import GuideLine
from natstui.tui.streams.screen import StreamsScreen
from tests.accounts import Account
from tests.model.builders import snapshot
from tests.model.test_benchmark_view import PLAN
from tests.tui.engine_records import BORN_US, engine_records
from tests.tui.viewer import Viewer, fed, viewing


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


async def at_step(viewer: Viewer, number: int, words: str) -> None:
    guide = viewer.app.parts.guide
    step = f"{number}/{len(GUIDE_STEPS)} "

    def is_there() -> bool:
        # What the line would show: quicker than to draw the screen.
        return step in guide.text() and words in guide.text()

    await viewer.until(is_there, f"step {number}: {words}, but {guide.text()}")


@pytest.mark.long
@pytest.mark.slow
async def test_a_step_ends_with_the_screen_that_it_asks_for_and_the_last_line_by_its_key() -> None:
    async with fed(*engine_records({"ORDERS": ("billing",)}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "ORDERS" in viewer.rows())
        assert f"/{len(GUIDE_STEPS)}" not in viewer.text
        await viewer.type_command("guide")
        await at_step(viewer, 1, "Press 2 for every consumer")
        first = (f"1/{len(GUIDE_STEPS)} ", "Press 2 for every")
        await viewer.until(lambda: all(words in viewer.words for words in first), "the first step")
        await viewer.press("2")
        await viewer.until(lambda: "billing" in viewer.rows())
        await at_step(viewer, 2, "enter says why")
        await viewer.press("enter")
        await at_step(viewer, 3, "m shows the messages")
        await viewer.press("m")
        await at_step(viewer, 4, "3 shows what happened")
        # The last step ends when its screen is closed again.
        viewer.app.parts.guide._set_step_index(13)
        await at_step(viewer, 14, "? lists every key")
        await viewer.press("question_mark")
        await viewer.press("escape")
        await viewer.until(lambda: "That was all" in viewer.words, "the last line")
        assert f"/{len(GUIDE_STEPS)} " not in viewer.text
        await viewer.press("ctrl+g")
        await viewer.until(lambda: "That was all" not in viewer.words, "the end of the guide")


def test_what_a_step_says_is_of_the_screen_that_is_open_and_of_what_goes_on() -> None:
    def current_text(number: int, state: State, *screens: str) -> str:
        return GUIDE_STEPS[number - 1].current_text(state, screens)

    none = State()
    assert "one that can be fixed here: " in current_text(6, none)
    assert "type 0 to make it ten times as many" in current_text(6, none, "ConsumerForm")
    assert "a work queue of your own: " in current_text(8, none)
    assert "→ until workqueue. ^s sends it" in current_text(8, none, "StreamForm")
    assert "a form for a benchmark" in current_text(9, none)
    form, scenarios = (
        "^o has built-in ones, as 15,000 to 3; ^s runs it",
        "Go with ↓ to fanout-slow",
    )
    assert form in current_text(9, none, "BenchmarkForm")
    assert scenarios in current_text(9, none, "BenchmarkForm", "ScenariosScreen")
    recording = none.after(RecordingChanged(3, on=True, folder="a", size_bytes=1))
    over = recording.after(RecordingChanged(4, on=False, folder="a", size_bytes=1))
    assert [GUIDE_STEPS[9].is_done(state) for state in (none, recording, over)] == [
        False,
        True,
        False,
    ]
    assert [GUIDE_STEPS[10].is_done(state) for state in (none, recording, over)] == [
        False,
        False,
        True,
    ]
    assert "No recording is running" in current_text(11, none)
    assert "again ends the recording" in current_text(11, recording)
    assert "what stood out in the newest recording" in current_text(13, none)
    replaying = none.after(ReplayPosition(3, 1, 9, 1.0, playing=False, recording=False))
    assert [GUIDE_STEPS[11].is_done(state) for state in (none, replaying)] == [False, True]
    assert "escape returns to the list" in current_text(13, replaying)
    ends = [(step.screen_to_open, step.screen_to_close) for step in GUIDE_STEPS]
    assert ends == [
        ("ConsumersScreen", ""), ("ConsumerDetail", ""), ("MessagesScreen", ""),
        ("EventsScreen", ""), ("FindingsScreen", ""), ("", "ConsumerForm"),
        ("OverviewScreen", ""), ("", "StreamForm"), ("", ""), ("", ""), ("", ""), ("", ""),
        ("", "AnalysisScreen"), ("", "HelpScreen"),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
async def test_each_step_ends_with_what_it_asks_for() -> None:
    async with fed(*engine_records({"ORDERS": ("billing",)}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "ORDERS" in viewer.rows())
        assert f"/{len(GUIDE_STEPS)}" not in viewer.text
        await viewer.type_command("guide")
        await at_step(viewer, 1, "Press 2 for every consumer")
        first = (f"1/{len(GUIDE_STEPS)} ", "Press 2 for every")
        await viewer.until(lambda: all(words in viewer.words for words in first), "the first step")
        await viewer.press("2")
        await viewer.until(lambda: "billing" in viewer.rows())
        await at_step(viewer, 2, "enter says why")
        await viewer.press("enter")
        await at_step(viewer, 3, "m shows the messages")
        await viewer.press("m")
        await at_step(viewer, 4, "3 shows what happened")
        await viewer.press("escape", "3")
        await at_step(viewer, 5, "t goes to a time: type 2m ago. 5 lists all that is wrong")
        await viewer.press("5")
        await at_step(viewer, 6, "one that can be fixed here: . opens the form for it")
        await viewer.press("ctrl+g")
        await at_step(viewer, 7, "A fixed finding leaves this list within seconds")
        await viewer.press("0")
        await at_step(viewer, 8, "a work queue of your own: 1, then a")
        await viewer.press("1", "a")
        await at_step(viewer, 8, "Type a name, ↓ to Retention, → until workqueue. ^s sends it")
        await viewer.type("jobs")
        for key in (*["down"] * 4, "right", "right"):
            viewer.send(key)
        await viewer.settle()
        await viewer.press("ctrl+s")
        await viewer.until(lambda: viewer.sent(Change), "it is sent")
        change = viewer.sent(Change)[-1]
        assert change.body_json is not None
        assert json.loads(change.body_json)["retention"] == "workqueue", "as the step says"
        await viewer.feed(Answered(1, change.command_id, "done", "stream jobs created"))
        await at_step(viewer, 9, "a form for a benchmark")
        await viewer.press("b", "b")
        await at_step(viewer, 9, "^o has built-in ones, as 15,000 to 3; ^s runs it")
        await viewer.press("ctrl+o")
        await at_step(viewer, 9, "Go with ↓ to fanout-slow: 15,000 to 3. ^s runs it as it is")
        await viewer.until(lambda: "fanout-slow" in viewer.text, "the list has it")
        await viewer.press("escape", "escape")
        await viewer.feed(BenchmarkPlanned(1, "r", PLAN))
        await at_step(viewer, 9, "The benchmark runs")
        await viewer.press("ctrl+g")
        await at_step(viewer, 10, "R records everything")
        await viewer.press("R")
        await viewer.until(lambda: viewer.sent(StartRecording), "it is sent")
        await viewer.feed(RecordingChanged(3, on=True, folder="a", size_bytes=1))
        await at_step(viewer, 11, "R again ends the recording")
        await viewer.feed(RecordingChanged(4, on=False, folder="a", size_bytes=1))
        await at_step(viewer, 12, "enter replays one")
        await viewer.press("ctrl+g")
        await at_step(viewer, 13, "what stood out in the newest recording")
        await viewer.press("ctrl+g")
        await at_step(viewer, 14, "? lists every key")
        await viewer.press("question_mark")
        await viewer.press("escape")
        await viewer.until(lambda: "That was all" in viewer.words, "the last line")
        assert f"/{len(GUIDE_STEPS)} " not in viewer.text
        await viewer.press("ctrl+g")
        await viewer.until(lambda: "That was all" not in viewer.words, "the end of the guide")


@pytest.mark.server
@pytest.mark.long
async def test_the_key_that_skips_moves_the_screen_and_a_stuck_consumer_is_fixed(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    jetstream = nc.jetstream()
    await jetstream.add_stream(name="RETURNS", subjects=["returns"])
    config = ConsumerConfig(durable_name="fraud-check", max_ack_pending=2, ack_wait=3600)
    pull = await jetstream.pull_subscribe("returns", durable="fraud-check", config=config)
    for _ in range(5):
        await jetstream.publish("returns", b"one")
    await pull.fetch(2)
    async with viewing(account.url, size=(120, 40)) as viewer:
        await viewer.until(
            lambda: any(
                it.kind is MAX_ACK_PENDING_REACHED
                for it in viewer.app.state.findings.list_open_findings()
            ),
            "it is stuck",
            60.0,
        )
        await viewer.type_command("guide")

        async def skip(to: int, name: str) -> None:
            await viewer.press("ctrl+g")
            step = f" {to}/{len(GUIDE_STEPS)} "
            await viewer.until(
                lambda: type(viewer.app.screen).__name__ == name and step in viewer.words, name
            )

        await skip(2, "ConsumersScreen")
        await skip(3, "ConsumerDetail")
        await skip(4, "MessagesScreen")
        await skip(5, "EventsScreen")
        await skip(6, "FindingsScreen")
        await at_step(viewer, 6, "fraud-check receives no more")
        await viewer.until(lambda: "fraud-check" in viewer.words.partition("SEVERITY")[2])
        await viewer.press("full_stop")
        await at_step(viewer, 6, "type 0 to make it ten times as many")
        await viewer.press("0", "ctrl+s")
        await at_step(viewer, 7, "A fixed finding leaves this list")
        info = await jetstream.consumer_info("RETURNS", "fraud-check")
        assert info.config.max_ack_pending == 20
        await viewer.until(
            lambda: (
                not any(
                    it.kind is MAX_ACK_PENDING_REACHED
                    for it in viewer.app.state.findings.list_open_findings()
                )
            ),
            "it heals",
        )
    await nc.close()


@pytest.mark.slow
async def test_the_key_that_skips_skips_one_step_and_the_screen_of_a_step_ends_it() -> None:
    records = engine_records({"ORDERS": ("billing",)})
    async with fed(*records, size=(80, 24), first="overview") as viewer:
        await viewer.feed(RecordingChanged(2, on=True, folder="a", size_bytes=1))
        await viewer.until(lambda: viewer.app.state.recording, "it records")
        await viewer.type_command("guide")
        await at_step(viewer, 1, "every consumer")
        for number in range(2, len(GUIDE_STEPS) + 1):
            if number in (2, 3):
                await viewer.press({2: "2", 3: "enter"}[number])
                words = {2: "enter says why", 3: "m shows the messages"}[number]
                await at_step(viewer, number, words)
                continue
            # Some are over already: their screen is in view, or it records since before.
            if number in (5, 7):
                await viewer.press({5: "5", 7: "0"}[number])
            at = viewer.app.parts.guide._step_index
            await viewer.press("ctrl+g")
            assert viewer.app.parts.guide._step_index == at + 1, GUIDE_STEPS[at].text
            viewer.app.show_state_now()
            await viewer.settle()
            assert viewer.app.parts.guide._step_index == at + 1, GUIDE_STEPS[at].text
            if number == 12:
                await at_step(viewer, 12, ":sessions lists the recordings: enter replays one")
        # The last step ends when its screen is closed again.
        await at_step(viewer, 14, "? lists every key")
        await viewer.press("question_mark", "escape")
        await viewer.until(lambda: "That was all" in viewer.words, "the last line")
        assert f"/{len(GUIDE_STEPS)} " not in viewer.text
        await viewer.press("ctrl+g")
        await viewer.until(lambda: "That was all" not in viewer.words, "the end of the guide")


async def test_what_was_done_before_a_step_was_reached_ends_it() -> None:
    async with fed(*engine_records(), size=(120, 40)) as viewer:
        viewer.app.parts.guide._set_step_index(9)
        await viewer.feed(RecordingChanged(2, on=True, folder="a", size_bytes=1))
        await at_step(viewer, 11, "R again ends the recording")
        await viewer.feed(RecordingChanged(3, on=False, folder="a", size_bytes=1))
        await at_step(viewer, 12, "enter replays one")


@pytest.mark.slow
async def test_the_last_line_goes_away_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guide, "LAST_LINE_SHOWN_S", 1.0)
    async with fed(*engine_records(), size=(120, 40)) as viewer:
        await viewer.type_command("guide")
        await at_step(viewer, 1, "every consumer")
        viewer.app.parts.guide._set_step_index(len(GUIDE_STEPS) - 1)
        await viewer.press("ctrl+g")
        await viewer.until(lambda: not viewer.app.parts.guide.text(), "the end")
        await viewer.until(lambda: "That was all" not in viewer.words)


@pytest.mark.slow
@pytest.mark.parametrize("size", [pytest.param((120, 40), marks=pytest.mark.long), (80, 24)])
async def test_a_toast_leaves_the_guide_free(size: tuple[int, int]) -> None:
    async with fed(*engine_records(), size=size, first="findings") as viewer:
        viewer.app.parts.guide._set_step_index(6)
        viewer.app.show_state_now()
        await at_step(viewer, 7, "A fixed finding leaves this list")
        viewer.app.notify("three lines " * 15)
        await viewer.until(lambda: "three lines" in viewer.words)
        toast, line = viewer.app.screen.query_one(Toast), viewer.app.screen.query_one(GuideLine)
        await viewer.until(lambda: not toast.region.overlaps(line.region), "beside each other")


def test_a_step_about_a_load_lasts_until_it_is_over() -> None:
    step = GUIDE_STEPS[8]
    planned = State().after(BenchmarkPlanned(1, "r", PLAN))
    assert "^s runs it" in step.current_text(State())
    assert step.current_text(planned).startswith("The benchmark runs")
    assert not step.is_done(planned)


@pytest.mark.slow
async def test_it_names_the_worst_consumer_and_the_users_own_keys_and_ends_when_told() -> None:
    records = engine_records({"ORDERS": ("billing",)}, keys={"screen.consumers": "f2"})
    polls = [
        snapshot(
            at_s,
            [{"name": "ORDERS", "created_at_us": BORN_US, "stored_msgs": 1, "last_seq": 1}],
            [{"stream": "ORDERS", "name": "billing", "created_at_us": BORN_US, "pending_msgs": 1}],
        )
        for at_s in range(2, 122, 10)
    ]
    async with fed(*records, *polls) as viewer:
        await viewer.type_command("guide")
        await at_step(viewer, 1, "Press f2 for every consumer")
        await viewer.press("f2")
        await at_step(viewer, 2, "billing is stuck: go to it with ↓, enter says why")
        await viewer.type_command("guide")
        await viewer.until(lambda: f"/{len(GUIDE_STEPS)} " not in viewer.text, "no guide")


def test_every_key_that_a_step_names_exists() -> None:
    # Of all screens: there is not always something that a key can act on.
    screens = (StreamsScreen, ConsumersScreen, EventsScreen, FindingsScreen, BenchmarkScreen)
    nodes = (node._merge_bindings() for node in (NatstuiApp, *screens))
    of_keys = (of_key for node in nodes for of_key in node.key_to_bindings.values())
    known = {binding.id for of_key in of_keys for binding in of_key}
    named = {key for step in GUIDE_STEPS for key in step.key_ids()}
    assert named - known == set()
