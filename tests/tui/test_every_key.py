"""Every key that a footer names is pressed, on every screen there is."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import get_type_hints

import nats
import pytest
from textual.actions import parse
from textual.binding import ActiveBinding, Binding
from textual.command import CommandPalette
from textual.screen import Screen
from textual.widgets import Input

from natstui import tui
from natstui.model.records.managing import Change
from natstui.tui.app.help import HelpScreen
from natstui.tui.app.parts import APP_BINDINGS, AppParts
from natstui.tui.connections.screen import ConnectionsScreen
from natstui.tui.consumers.screen import ConsumersScreen
from natstui.tui.findings.screen import FindingsScreen
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.messages.screen import MessagesScreen
from natstui.tui.stores.buckets import BucketsScreen
from natstui.tui.stores.history import HistoryScreen
from natstui.tui.stores.keys import KeysScreen
from tests.accounts import Account
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.viewer import Viewer, replaying, viewing

WAYS: dict[str, tuple[str, ...]] = {
    "OverviewScreen": ("0",),
    "StreamsScreen": (),
    "ConsumersScreen": ("2",),
    "EventsScreen": ("3",),
    "ServerScreen": ("4",),
    "FindingsScreen": ("5",),
    "ConnectionsScreen": ("6",),
    "ConnectionDetail": ("6", "home", "enter"),
    "AuditScreen": ("6", "A"),
    "BucketsScreen": ("7",),
    "BucketForm": ("7", "a"),
    "KeysScreen": (":buckets CONF",),
    "HistoryScreen": (":buckets CONF", "home", "enter"),
    "RevisionScreen": (":buckets CONF", "home", "enter", "enter"),
    "PutScreen": (":buckets CONF", "a"),
    "ObjectsScreen": (":buckets FILES",),
    "FindingDetail": ("5", "home", "d"),
    "BenchmarkScreen": ("b",),
    "BenchmarkForm": ("b", "b"),
    "ScenariosScreen": ("b", "b", "ctrl+o"),
    "HelpScreen": ("question_mark",),
    "StreamDetail": ("d",),
    "ConsumerDetail": ("2", "home", "d"),
    "RawScreen": ("y",),
    "StreamForm": ("a",),
    "ConsumerForm": ("2", "home", "a"),
    "ActionScreen": ("P",),
    "MessagesScreen": ("m",),
    "MessageScreen": ("m", "enter"),
    "PublishScreen": ("m", "w"),
    "TailScreen": ("m", "T"),
    "ListenScreen": (":sub",),
    "BackupScreen": (":backup ALPHA /dev/null/x",),
    "RestoreScreen": (":restore /dev/null/x",),
    "TapScreen": ("2", "home", "T"),
    "PullersScreen": ("2", "home", "W"),
    "PublishersScreen": ("W",),
    "DeadLettersScreen": ("2", "home", "D"),
    "PullScreen": ("2", "home", "m", "N"),
    "JournalScreen": (":journal",),
    "RunsScreen": (":runs",),
    "SessionsScreen": (":sessions",),
    "AnalysisScreen": (":analyze",),
}
"""How to come to each screen from the streams: keys, or a command line."""


def by_the_way() -> set[tuple[str, str]]:
    """Return screens and their keys that are pressed on the way to another screen."""
    named = {tuple(key for key in way if key != "home"): name for name, way in WAYS.items()}
    return {
        (named[way[:-1]], way[-1])
        for way, name in named.items()
        if way and way[:-1] in named and name not in OWN_TESTS
    }


OWN_TESTS = {
    "ActionScreen", "AnalysisScreen", "AuditScreen", "BackupScreen", "BenchmarkForm",
    "BenchmarkScreen", "BucketForm", "BucketsScreen", "ConnectionDetail",
    "ConsumerDetail", "ConsumerForm", "ConsumersScreen", "DeadLettersScreen", "EventsScreen",
    "FindingDetail", "HelpScreen", "HistoryScreen", "KeysScreen", "ListenScreen", "ObjectsScreen",
    "OverviewScreen", "PublishersScreen", "PullScreen",
    "PullersScreen", "RawScreen", "RestoreScreen", "RunsScreen",
    "ScenariosScreen", "ServerScreen", "SessionsScreen", "StreamForm", "StreamsScreen",
    "TailScreen", "TapScreen",
}  # fmt: skip
"""Tests of these screens, or of their like, press their keys; here it is left to `make long`."""


OPENED_ELSEWHERE = {
    ("StreamDetail", "a"), ("StreamDetail", "e"), ("StreamDetail", "x"), ("StreamDetail", "y"),
}  # fmt: skip
"""What they open costs as much as all other keys of the screen, and other lists open the same."""

IN_A_REPLAY = {"CompareScreen"}
ALIKE = {"ListenersScreen"}
"""Has the keys of another: of PullersScreen, on a push consumer."""
WITHOUT_FOOTER = {"TooSmallNotice"}

ELSEWHERE = {
    ("ScenariosScreen", "ctrl+s"),  # starts load: test_benchmark_screen.py
    ("BenchmarkForm", "ctrl+s"),  # starts load: test_benchmark_form.py
    ("BenchmarkForm", "plus"),  # where a rate is typed: test_benchmark_form.py
    ("BenchmarkForm", "minus"),
    ("AnalysisScreen", "ctrl+s"),  # starts a JVM: test_analysis.py
}

WITH_ROWS = (
    ConnectionsScreen, BucketsScreen, KeysScreen, HistoryScreen, ConsumersScreen, FindingsScreen,
)  # fmt: skip
"""Where a key acts on a row: it is pressed once there is one."""

LEAVES = {"q", "ctrl+q"}
BY_THE_WAY = by_the_way()

PARTS_OF_ALL = ("natstui.tui.frame.", "natstui.tui.kit.", "textual.")
"""What is written here does the same on every screen that has it."""
HELP = {"question_mark", "f1"}
"""Both open the same panel over every screen."""

KNOWN = {"SessionsScreen": {"A", "e", "n", "w", "ctrl+d"}}
"""Keys a footer must name, wherever a screen is opened."""


def every_screen() -> dict[str, type[Screen[object]]]:
    """Return the screens of every feature, by name."""
    found: dict[str, type[Screen[object]]] = {}
    for info in pkgutil.walk_packages(tui.__path__, "natstui.tui."):
        if info.name.startswith(("natstui.tui.kit", "natstui.tui.frame")):
            continue  # parts of screens, opened by the screens themselves
        module = importlib.import_module(info.name)
        for name, thing in vars(module).items():
            own = isinstance(thing, type) and thing.__module__ == module.__name__
            # The palette is Textual's own list and has no footer.
            if own and issubclass(thing, Screen) and not issubclass(thing, CommandPalette):
                found[name] = thing
    bases = {base for screen in found.values() for base in screen.__mro__[1:]}
    return {name: screen for name, screen in found.items() if screen not in bases}


def test_every_key_of_a_part_of_the_app_names_an_action_of_that_part() -> None:
    parts = get_type_hints(AppParts)
    for binding in APP_BINDINGS:
        assert isinstance(binding, Binding)
        _, action, (part, name, *_) = parse(binding.action)
        assert action == "part"
        assert binding in parts[part].BINDINGS
        assert hasattr(parts[part], f"action_{name}"), binding.id


def test_every_screen_has_its_keys_pressed() -> None:
    assert {*WAYS, *IN_A_REPLAY, *ALIKE, *WITHOUT_FOOTER} == set(every_screen())


async def fill(server: Account) -> None:
    nc = await nats.connect(server.url)
    js = nc.jetstream()
    await js.add_stream(name="ALPHA", subjects=["alpha.>"])
    for number in range(3):
        await js.publish("alpha.x", b'{"number": %d}' % number, headers={"Key": "value"})
    await js.add_consumer("ALPHA", durable_name="one", ack_policy="explicit")
    kv = await js.create_key_value(bucket="CONF", history=5)
    for value in (b"1", b'{"two": 2}'):
        await kv.put("key", value)
    await (await js.create_object_store("FILES")).put("file", b"content")
    await nc.close()


def has_page(screen: MessagesScreen) -> bool:
    return screen.pages.page is not None


async def go(viewer: Viewer, name: str) -> None:
    """Come to a screen from wherever one is."""
    while len(viewer.app.screen_stack) > 1:
        viewer.app.pop_screen()
        await viewer.settle()
    way = WAYS[name]
    # What begins with another list is come to from any.
    begins_elsewhere = bool(way) and (way[0].isdigit() or way[0].startswith(":"))
    for key in way if begins_elsewhere else ("1", "home", *way):
        if key.startswith(":"):
            await viewer.type_command(key[1:])
        else:
            viewer.send(key)
            await viewer.settle()
        shown = viewer.app.screen
        if isinstance(shown, TableScreen) and shown.ordering.order.problems_only:
            # A key that was pressed before hides what has none.
            await viewer.press("exclamation_mark")
        if isinstance(shown, WITH_ROWS):
            await viewer.until(viewer.rows, "rows")
        if isinstance(shown, MessagesScreen):
            await viewer.until(partial(has_page, shown), "a page")
    await viewer.until(lambda: type(viewer.app.screen).__name__ == name, name)
    await viewer.settle()


def named(viewer: Viewer) -> list[ActiveBinding]:
    """Return what the footer of the screen in view names."""
    bindings = viewer.app.screen.active_bindings.values()
    return [one for one in bindings if one.binding.show and one.enabled]


def can_be_done(viewer: Viewer, active: ActiveBinding) -> bool:
    _, action, arguments = parse(active.binding.action)
    if action == "part":
        part, name, *_ = arguments
        holder = viewer.app.parts if active.node is viewer.app else active.node
        return hasattr(getattr(holder, part), f"action_{name}")
    owners = (active.node, viewer.app.screen, viewer.app)
    return any(hasattr(owner, f"action_{action}") for owner in owners)


def shared_action(viewer: Viewer, active: ActiveBinding) -> object:
    """Return the action of a key if it is the same code on several screens; else None."""
    _, action, arguments = parse(active.binding.action)
    owner: object = active.node
    if action == "part":
        part, action, *_ = arguments
        owner = getattr(viewer.app.parts if owner is viewer.app else owner, part)
    function = getattr(type(owner), f"action_{action}", None)
    if function is None or not function.__module__.startswith(PARTS_OF_ALL):
        return None
    return function.__qualname__, arguments


def lines(viewer: Viewer) -> list[CommandLine]:
    """Return the command line of the screen in view, whose letters would take the next keys."""
    return list(viewer.app.screen.query(CommandLine))


async def back_to(viewer: Viewer, home: Screen[object], mode: str) -> bool:
    """Leave what a key opened; tell whether the screen is still there."""
    if viewer.app.current_mode != mode:
        viewer.app.switch_mode(mode)
        await viewer.settle()
    while viewer.app.screen is not home and len(viewer.app.screen_stack) > 1:
        viewer.app.pop_screen()
        await viewer.settle()
    return viewer.app.screen is home


def leaves_last(active: ActiveBinding) -> bool:
    return active.binding.key == "escape"


async def press_all(
    viewer: Viewer, name: str, come: Callable[[], Awaitable[None]], known: set[object] | None
) -> int:
    """Press every key the footer names, coming back to the screen for the next key.

    Actions that are `known` were pressed on another screen, and are the same on this one. None:
    nothing is known, and everything is pressed everywhere.
    """
    home, mode, pressed = viewer.app.screen, viewer.app.current_mode, 0
    is_there = True
    assert HelpScreen.for_screen(home)._keys, name
    assert KNOWN.get(name, set()) <= {active.binding.key for active in named(viewer)}
    for active in home.active_bindings.values():
        if active.node is home and parse(active.binding.action)[1] == "part":
            assert can_be_done(viewer, active), (name, active.binding.key)
    # What leaves is pressed last: to come back costs as much as ten keys.
    for active in sorted(named(viewer), key=leaves_last):
        key = active.binding.key
        if key in LEAVES or (name, key) in ELSEWHERE:
            continue
        if known is not None and (name, key) in BY_THE_WAY | OPENED_ELSEWHERE:
            pressed += 1
            continue
        assert can_be_done(viewer, active), (name, key)
        pressed += 1
        if active.node is viewer.app and name != "StreamsScreen":
            continue  # the same key on every screen
        shared = "help" if key in HELP else shared_action(viewer, active)
        if known is not None and shared is not None:
            if shared in known:
                continue
            known.add(shared)
        if not is_there:
            await come()
            home = viewer.app.screen
        await viewer.press(key)
        assert viewer.app.is_running, (name, key)
        if isinstance(viewer.app.focused, Input) and viewer.app.focused.parent in lines(viewer):
            await viewer.press("escape")
        is_there = await back_to(viewer, home, mode)
    return pressed


@pytest.mark.server
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_every_key_of_every_footer_is_pressed(
    account: Account, everywhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(account)
    # Keys of the list of recordings have one under the cursor.
    scenario = Scenario(streams=1, consumers=1)
    made(tmp_path, [*scenario.beginning(), *scenario.records(0, 5)])
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path))
    # An analysis that is begun by a key ends at once.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    # What changes is seen at once; else the screens would be drawn anew between the keys.
    async with viewing(account.url, "--interval", "5s", size=(80, 24)) as viewer:
        await viewer.until(lambda: "ALPHA" in viewer.rows())
        # The journal has something to show and to take back.
        viewer.app.parts.engines.send(Change(1, "create_stream", "MADE", None, '{"name": "MADE"}'))
        await viewer.until(lambda: "MADE" in viewer.rows())
        known: set[object] | None = None if everywhere else set()
        for name in sorted(WAYS if everywhere else WAYS.keys() - OWN_TESTS):
            await go(viewer, name)
            assert await press_all(viewer, name, partial(go, viewer, name), known), name


@pytest.mark.long
@pytest.mark.slow
async def test_every_key_of_a_comparison_is_pressed(tmp_path: Path) -> None:
    scenario = Scenario(streams=2, consumers=2)
    folder = made(tmp_path, [*scenario.beginning(), *scenario.records(0, 20)])
    async with replaying(folder, size=(120, 40)) as viewer:
        await viewer.until(lambda: "paused" in viewer.text)

        async def come() -> None:
            while len(viewer.app.screen_stack) > 1:
                viewer.app.pop_screen()
                await viewer.settle()
            await viewer.press("1", "a")
            moved_from_us = viewer.app.state.replay.at_us  # type: ignore[union-attr]
            await viewer.type_command("seek +5s")
            await viewer.until(
                lambda: viewer.app.state.replay.at_us != moved_from_us,  # type: ignore[union-attr]
                "another moment",
            )
            await viewer.press("equals_sign")
            await viewer.until(lambda: type(viewer.app.screen).__name__ == "CompareScreen")

        await come()
        assert await press_all(viewer, "CompareScreen", come, set())
