"""A recording on the screen: the timeline, its keys, and what they hide."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from natstui.model.records.messages import BrowseMessages
from natstui.session.files.folder import list_segments
from natstui.tui.frame.live import NO_SERVER
from natstui.tui.overview.screen import OverviewScreen
from natstui.tui.sessions.compare import CompareScreen
from natstui.tui.sessions.screen import SessionsScreen
from tests.accounts import Account
from tests.session.making import made
from tests.session.scenario import START_US, Scenario
from tests.tui.viewer import Viewer, replaying, viewing

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay screen")]

LAST_S = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scenario = Scenario(streams=2, consumers=4)
    records = [*scenario.beginning(), *scenario.records(0, LAST_S)]
    return made(tmp_path_factory.mktemp("sessions"), records, polls_per_segment=40)


def at_s(viewer: Viewer) -> float:
    """Seconds from the start of the recording to the moment shown."""
    replay = viewer.app.state.replay
    assert replay is not None
    return (replay.at_us - START_US) / 1e6


async def test_a_recording_is_looked_through_with_keys_and_mouse_until_q_ends_it(
    folder: Path,
) -> None:
    async with replaying(folder, size=(160, 30)) as viewer:
        await viewer.until(lambda: "paused 1×" in viewer.words)
        assert "q Quit" in viewer.text.splitlines()[-1], "where q leads"
        await offers_nothing_that_needs_a_server(viewer)
        await viewer.press("right_square_bracket")
        await viewer.until(lambda: 0 < at_s(viewer) < 1)
        await viewer.press(*["right_square_bracket"] * 3, "left_square_bracket")
        await viewer.until(lambda: at_s(viewer) == 2)
        await viewer.type_command("seek +30s")
        await viewer.until(lambda: at_s(viewer) == 32)
        await viewer.press("right_curly_bracket")
        await viewer.until(lambda: at_s(viewer) > 32)
        later = at_s(viewer)
        await viewer.press("left_curly_bracket")
        await viewer.until(lambda: at_s(viewer) < later)
        await viewer.press("S")
        assert "seek" in viewer.text
        await viewer.press("escape")
        await viewer.press("full_stop", "full_stop")
        await viewer.until(lambda: "paused 4×" in viewer.words)
        before = at_s(viewer)
        await viewer.press("space")
        await viewer.until(lambda: at_s(viewer) > before + 2)
        await viewer.press("comma", "space")
        await viewer.until(lambda: "paused 2×" in viewer.words)
        assert viewer.app.parts.engines.shown_follower.poll_age_us == 0
        # Keys pressed in a row all count.
        for key, speed in (("full_stop", 64), ("comma", 0.25)):
            for _ in range(9):
                viewer.app.simulate_key(key)
            await viewer.until(
                lambda at=speed: viewer.app.parts.replay.position.speed_ratio == at,  # type: ignore[misc]
                key,
            )
        await viewer.press("7")
        await viewer.until(lambda: "no buckets" in viewer.words and "creates" not in viewer.words)
        await viewer.press("1")
        await viewer.pilot.click("Timeline", offset=(80, 1))
        await viewer.until(lambda: 25 < at_s(viewer) < 35)
        await compares_two_moments(viewer)
        await viewer.press("escape", "escape")
        assert viewer.app.parts.engines.is_replaying and viewer.app.return_code is None
        await viewer.press("q")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")


async def offers_nothing_that_needs_a_server(viewer: Viewer) -> None:
    """At the beginning of a recording."""

    def offered() -> set[str | None]:
        return {active.binding.id for active in viewer.app.screen.active_bindings.values()}

    live = {"pause", "faster", "refresh", "record", "note", "stream.add", "raw"}
    # The app knows a moment before its screen does.
    await viewer.until(lambda: "replay.play" in offered() and not offered() & live)
    reply = await viewer.app.engine.request(BrowseMessages(0, "S"))
    assert (reply.status, reply.text) == ("failed", NO_SERVER)
    await viewer.type_command("interval 5s")
    await viewer.until(lambda: "needs a live server" in viewer.said)
    await viewer.type_command("seek 25:00")
    await viewer.until(lambda: "not a time of day" in viewer.said)
    happened = viewer.app.state.recent_events
    await viewer.press("2", "1", "left_curly_bracket")
    await viewer.until(lambda: "no earlier event" in viewer.said)
    assert viewer.app.state.recent_events == happened
    await viewer.press("4")
    await viewer.until(lambda: "this recording has no servers" in viewer.words, "the reason")
    assert "CONNECTION" in viewer.text
    await viewer.press("1")


async def compares_two_moments(viewer: Viewer) -> None:
    await viewer.press("a")
    await viewer.until(lambda: viewer.app.parts.replay.marked_state, "the mark")
    marked = at_s(viewer)
    await viewer.type_command("seek +20s")
    await viewer.until(lambda: at_s(viewer) > marked + 10)
    await viewer.press("equals_sign")
    await viewer.until(lambda: isinstance(viewer.app.screen, CompareScreen), "both")
    await viewer.until(lambda: "last seq" in viewer.words)
    state, a = viewer.app.state, viewer.app.parts.replay.marked_state
    assert a is not None
    grown = state.streams.columns.last_seq[0] - a.streams.columns.last_seq[0]
    assert f"{grown:+,}" in viewer.text


async def test_the_timeline_says_how_many_lines_are_left_out(tmp_path: Path) -> None:
    spoiled = made(tmp_path, Scenario(streams=2, consumers=4).records(0, 5))
    (file,) = list_segments(spoiled)
    plain = gzip.decompress(file.path.read_bytes())
    file.path.with_suffix("").write_bytes(plain + b"noise\n" * 3)
    file.path.unlink()
    async with replaying(spoiled, size=(120, 40)) as viewer:
        await viewer.until(lambda: "3 lines left out" in viewer.words)


@pytest.mark.server
async def test_r_records_and_the_list_of_sessions_leads_into_a_replay_and_back(
    account: Account,
) -> None:
    async with viewing(account.url, size=(160, 30)) as viewer:
        # A recording that begins before the first poll is replayed from there.
        await viewer.until(lambda: viewer.app.state.costs)
        await viewer.press("R")
        await viewer.until(lambda: "● REC" in viewer.words)
        await viewer.press("n")
        await viewer.type("seen")
        await viewer.press("enter")
        polls = len(viewer.app.state.costs)
        await viewer.until(lambda: len(viewer.app.state.costs) > polls + 2)
        await viewer.press("R")
        await viewer.until(lambda: "● REC" not in viewer.words)
        await viewer.press("b")
        await viewer.type_command("sessions")
        await viewer.until(lambda: "complete" in viewer.text)
        await viewer.press("enter")
        await viewer.until(lambda: any("loading" in text for text in viewer.toasts))
        engines = viewer.app.parts.engines
        await viewer.until(lambda: engines.is_replaying and "paused" in viewer.text)
        assert isinstance(viewer.app.screen, OverviewScreen)
        await viewer.until(lambda: "loading" not in viewer.text)
        await viewer.until(lambda: "○ was connected" in viewer.words)
        assert "rtt" not in viewer.text and "● connected" not in viewer.words
        await viewer.press("3")
        # What else is marked before it depends on the machine.
        for _ in range(20):
            if "seen" in viewer.text:
                break
            at_us = viewer.app.state.replay.at_us  # type: ignore[union-attr]
            await viewer.press("right_curly_bracket")
            await viewer.until(lambda was=at_us: viewer.app.state.replay.at_us > was, "the next")  # type: ignore[misc,union-attr]
        await viewer.until(lambda: "seen" in viewer.text)
        await viewer.until(lambda: "q Back" in viewer.text.splitlines()[-1], "where q leads")
        await viewer.press("q")
        await viewer.until(
            lambda: not viewer.app.parts.engines.is_replaying and "paused" not in viewer.text
        )
        await viewer.until(lambda: isinstance(viewer.app.screen, SessionsScreen), "its list")
        await viewer.type_command("seek +1s")
        await viewer.until(lambda: "needs a recording" in viewer.said)
        await viewer.press("q")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 1, "what lies below it")
        assert viewer.app.return_code is None
