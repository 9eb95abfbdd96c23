"""The footer shows whole keys only, and says when there are more."""

from __future__ import annotations

import pytest
from textual.binding import ActiveBinding

from natstui.model.records.benchmark import BenchmarkPlanned, BenchmarkSummed, KillWorker
from natstui.model.records.messages import Answered
from natstui.model.records.recording import ListSessions, ReplayPosition
from natstui.tui.app.help import HelpScreen
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.frame.key_footer import KeyFooter
from natstui.tui.kit.command_line import CommandLine
from tests.model.test_benchmark_view import PLAN
from tests.tui.engine_records import engine_records
from tests.tui.viewer import Viewer, fed

REPLAY_KEYS = "space Play/pause S Seek a Mark A = Compare"
STREAM = {"ORDERS": ()}


def offered(viewer: Viewer) -> list[str]:
    """Every key the footer would show with room enough, with its word."""
    active = viewer.app.screen.active_bindings.values()
    shown = [each.binding for each in active if each.binding.show]
    help_, *own = (each for each in shown if each.id not in ("quit", "command"))
    screen = len([each for each in active if each.binding in own and each.node is not viewer.app])
    general = [each for each in shown if each.id in ("quit", "command")]
    texts = [
        f"{viewer.app.get_key_display(binding)} {binding.description}"
        for binding in (help_, *own[:screen], *general, *own[screen:])
    ]
    return list(dict.fromkeys(texts))


def last_line(viewer: Viewer) -> str:
    return viewer.text.splitlines()[-1].rstrip()


def footer(viewer: Viewer) -> str:
    """What the footer would draw: quicker than to draw the whole screen."""
    return viewer.app.screen.query_one(KeyFooter).render().plain


EMPTY = (
    ("1", "/ Filter a Add ", "no streams: a creates one"),
    ("2", "/ Filter a Add ", "no consumers: they need a stream. 1 leads to the streams"),
    ("7", "/ Filter a Add ", "no buckets: a creates a key-value bucket or an object store"),
    ("b", "b Form ", "no benchmark has run"),
)
"""The key of each list, its own keys while there is nothing in it, and what it says then."""
OTHERS = (
    ("3", "/ Filter ! Problems t Time f Fold ", ""),
    ("4", "/ Filter ", ""),
    ("5", "/ Filter ", ""),
    ("6", "/ Filter o Closed A API audit ", ""),
    ("0", "", ""),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lists", [EMPTY, pytest.param(OTHERS + EMPTY, marks=pytest.mark.long)], ids=["some", "all"]
)
async def test_keys_that_can_do_nothing_now_are_not_offered_and_an_empty_table_says_what_can(
    lists: tuple[tuple[str, str, str], ...],
) -> None:
    """In empty tables, before a benchmark and after it; what is not allowed is grey and last."""
    async with fed(*engine_records(), size=(120, 24)) as viewer:
        everywhere = "q Quit : Command p Pause R Record"
        for keys, own, text in lists:
            viewer.send(keys)
            await viewer.settle()
            whole = f"? Help {own}{everywhere}"
            await viewer.until(lambda whole=whole: footer(viewer) == whole, whole)  # type: ignore[misc]
            if text:
                await viewer.until(lambda text=text: text in viewer.words, text)  # type: ignore[misc]
        await viewer.feed(BenchmarkPlanned(2, "r", PLAN))
        await viewer.until(lambda: "k Kill" in footer(viewer), "it runs")
        for key in ("b", "k"):
            assert key in {active.binding.key for active in named(viewer)}
        await viewer.feed(BenchmarkSummed(3, "the end", failed=False))
        await viewer.until(lambda: footer(viewer) == f"? Help b Form {everywhere}", "over")
        await viewer.press("1", "2", "b", "k", "ctrl+x", "P")
        assert not viewer.sent(KillWorker)
    async with fed(*engine_records(STREAM, read_only=True), size=(240, 24)) as viewer:
        await viewer.until(lambda: "m Messages" in footer(viewer), "what may be done")
        await viewer.until(lambda: footer(viewer).endswith(f"{everywhere} a Add e Edit"))
        await viewer.press("2")
        await viewer.until(lambda: "no consumers" in viewer.words, "an empty list")
        assert "creates" not in viewer.words, "nothing can be made"


@pytest.mark.slow
async def test_the_keys_of_a_screen_come_first_and_a_benchmark_starts_until_it_is_planned() -> (
    None
):
    async with fed(*engine_records(STREAM), size=(80, 24), first="consumers") as viewer:
        await viewer.until(lambda: "no consumers: a creates one" in viewer.words)
        await viewer.press("1")
        await viewer.until(lambda: footer(viewer).startswith("? Help / Filter ! Problems d "))
        await viewer.press("b")
        screen = viewer.app.screen
        assert isinstance(screen, BenchmarkScreen)
        screen.steering.start("fanout-slow", "demo")
        await viewer.until(lambda: "starting the benchmark" in viewer.words)
        assert "no benchmark has run" not in viewer.words
        assert "r Again" not in footer(viewer)
        await viewer.feed(BenchmarkPlanned(2, "r", PLAN))
        await viewer.until(lambda: "starting the benchmark" not in viewer.words, "it runs")
        # The key that leaves is always there.
        own = "? Help b Form ^x Stop + Faster - Slower a Add k Kill f Freeze h Hold q Quit …"
        await viewer.until(lambda: last_line(viewer) == own)


def named(viewer: Viewer) -> list[ActiveBinding]:
    """Return the keys that can be pressed and are named by the footer."""
    active = viewer.app.screen.active_bindings.values()
    return [each for each in active if each.binding.show and each.enabled]


@pytest.mark.slow
async def test_a_replay_offers_its_own_keys_and_none_that_need_a_server() -> None:
    position = ReplayPosition(3, 1, 9, 1.0, playing=False, recording=False)
    async with fed(*engine_records(STREAM), position, size=(80, 24)) as viewer:
        await viewer.press("b")
        await viewer.until(lambda: footer(viewer).startswith(f"? Help {REPLAY_KEYS} q Quit"))
        await viewer.type_command("sessions")
        own = f"? Help / Filter {REPLAY_KEYS} q Back"
        await viewer.until(lambda: viewer.sent(ListSessions), "the list is requested")
        number = viewer.sent(ListSessions)[-1].command_id
        await viewer.feed(Answered(1, number, "done", "none", "[]"))
        await viewer.until(lambda: "no recordings" in viewer.words, "an empty list")
        await viewer.until(lambda: footer(viewer).startswith(own), own)


@pytest.mark.slow
async def test_only_whole_keys_are_shown_and_a_resize_chooses_anew() -> None:
    async with fed(*engine_records(STREAM), size=(80, 24)) as viewer:
        await viewer.until(lambda: last_line(viewer).endswith(" …"), "a mark for what is left out")
        fitting, keys = last_line(viewer).removesuffix(" …"), offered(viewer)
        # Key by key the line is the beginning of the whole list, and the key that leaves:
        # nothing is cut in the middle.
        assert fitting.endswith(" q Quit")
        first = fitting.removesuffix(" q Quit")
        count = [" ".join(keys[:n]) for n in range(len(keys))].index(first)
        assert 3 < count < len(keys)

        await viewer.pilot.resize_terminal(240, 24)
        await viewer.until(lambda: last_line(viewer) == " ".join(keys))

        exact = len(" ".join(keys))
        await viewer.pilot.resize_terminal(exact, 24)
        await viewer.until(lambda: viewer.text.splitlines()[-1] == " ".join(keys), "just enough")

        await viewer.pilot.resize_terminal(exact - 1, 24)
        expected = " ".join(keys[:-1]) + " …"
        await viewer.until(lambda: last_line(viewer) == expected, "one less")


@pytest.mark.slow
async def test_the_mouse_presses_the_keys_and_they_are_one_widget() -> None:
    async with fed(*engine_records(STREAM), size=(120, 24)) as viewer:
        await viewer.until(lambda: "/ Filter" in last_line(viewer))
        footer = viewer.app.screen.query_one(KeyFooter)
        # Widgets for each key, made anew with every dialog, cost more than all else together.
        assert not list(footer.children)
        for word in ("Filter", "Help"):
            line = viewer.app.screen.query_one(CommandLine)
            assert not line.has_class("-open")
            x = last_line(viewer).index(word)
            await viewer.pilot.hover(KeyFooter, offset=(x, 0))
            await viewer.pilot.click(KeyFooter, offset=(x, 0))
            if word == "Filter":
                await viewer.until(lambda line=line: line.has_class("-open"), "the filter")
                await viewer.press("escape")
        await viewer.until(lambda: isinstance(viewer.app.screen, HelpScreen), "the help")
