"""The key of a binding on a screen, and the keys that sentences name: as in the user's keymap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar, runtime_checkable

from textual.keys import format_key
from textual.screen import Screen

_Result = TypeVar("_Result")


def key_of(screen: Screen[_Result], binding_id: str) -> str:
    """Return the first active key of a binding on a screen; empty if the binding is disabled."""
    for _node, binding, enabled, _tooltip in screen.active_bindings.values():
        if enabled and binding.id == binding_id:
            return binding.key_display or binding.key
    return ""


@runtime_checkable
class HasKeymap(Protocol):
    """An app whose user may have set other keys."""

    keymap: Mapping[str, str]
    """Id of a binding → its keys, separated by commas; only of those that the user has set."""


def user_keys(screen: Screen[_Result], actions_id: str = "") -> Mapping[str, str]:
    """Return the keys that the user has set, as they are displayed, by the id of their binding.

    `actions_id` is the binding that does an advised action on this screen, if it is another one
    than on the findings screen.
    """
    app = screen.app
    assert isinstance(app, HasKeymap)
    keys = {name: format_key(keys.split(",")[0].strip()) for name, keys in app.keymap.items()}
    actions_key = key_of(screen, actions_id) if actions_id else ""
    return {**keys, "finding.act": actions_key} if actions_key else keys
