"""An action is one row: its key, its footer word, what it sends and what that needs."""

from __future__ import annotations

import ast
import re

import pytest
from textual.binding import Binding, BindingType

from natstui.model import keys as default_keys
from natstui.model.records.actions import CATALOGUE
from natstui.tui.consumers.detail import ConsumerDetail
from natstui.tui.consumers.screen import ConsumersScreen
from natstui.tui.frame import action_keys
from natstui.tui.frame.action_keys import CONSUMER_ACTIONS, SPECS, STREAM_ACTIONS, ActionSpec
from natstui.tui.frame.action_runner import choose_consumer
from natstui.tui.streams.detail import StreamDetail
from natstui.tui.streams.screen import StreamsScreen
from tests.architecture.source import Module, modules
from tests.tui.engine_records import engine_records
from tests.tui.viewer import fed

ROWS = [value for value in vars(action_keys).values() if isinstance(value, ActionSpec)]
SCREENS = (
    (StreamsScreen, STREAM_ACTIONS),
    (StreamDetail, STREAM_ACTIONS),
    (ConsumersScreen, CONSUMER_ACTIONS),
    (ConsumerDetail, CONSUMER_ACTIONS),
)


def keys(bindings: list[BindingType], prefix: str) -> dict[str, Binding]:
    """Return a screen's bindings by the name of what they do."""
    own = [one for one in bindings if isinstance(one, Binding) and one.action.startswith(prefix)]
    return {one.action.removeprefix(prefix).removesuffix("')"): one for one in own}


@pytest.mark.parametrize(("screen", "rows"), SCREENS)
def test_the_keys_of_a_screen_are_those_of_the_rows(
    screen: type[StreamsScreen], rows: tuple[ActionSpec, ...]
) -> None:
    found = keys(screen.BINDINGS, "part('managing', 'manage', '")
    assert set(found) == {row.name for row in rows if row.key}
    for row in rows:
        if row.key:
            it = found[row.name]
            assert (it.key, it.description, it.show, it.id) == (
                row.key, row.label, row.is_shown, row.id,
            )  # fmt: skip


def test_every_row_says_what_it_needs_permission_for() -> None:
    reads = {name for name, row in SPECS.items() if row.sent_action is None}
    assert reads == {"messages", "tap", "dead-letters", "clients", "publishers", "undo"}
    assert all(row.sent_action in CATALOGUE for row in SPECS.values() if row.sent_action)


def strings(module: Module) -> set[str]:
    """Return the strings of a module that are handed on as they are."""
    return {
        node.value
        for node in module.nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.xdist_group("architecture")
def test_a_key_that_changes_something_is_written_in_the_rows_alone() -> None:
    calls = [row for row in (*STREAM_ACTIONS, *CONSUMER_ACTIONS, *ROWS) if row.key]
    ids = {row.id for row in calls}
    assert len(ids) > 12
    for module in modules():
        if module.name not in (action_keys.__name__, default_keys.__name__):
            assert ids & strings(module) <= {"undo"}, module.name
            assert not re.search(r"Binding\([^)]*'manage'", module.text), module.name


@pytest.mark.xdist_group("architecture")
def test_what_an_action_sends_is_written_in_the_rows_and_the_catalogue_alone() -> None:
    forms = {row.name for row in SPECS.values() if row.sent_action and not row.has_prompt} - set(
        CATALOGUE
    )
    assert forms >= {"add-stream", "edit-stream", "clone-consumer", "publish-again"}
    pairs = {
        module.name
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and key.value in forms
    }
    assert pairs == set()


async def test_a_consumer_that_is_named_or_alone_is_not_chosen_from_a_list() -> None:
    async with fed(*engine_records({"S": ("C",), "T": ("A", "B")}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "T" in viewer.rows(), "the streams")
        screen = viewer.table
        assert await choose_consumer(screen, "T", "B") == "B"
        assert await choose_consumer(screen, "S", None) == "C"
        assert viewer.app.screen is screen
