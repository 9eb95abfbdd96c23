"""The key of a binding on a screen, as in the user's keymap."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import Screen

_Result = TypeVar("_Result")


def key_of(screen: Screen[_Result], binding_id: str) -> str:
    """Return the first active key of a binding on a screen; empty if the binding is disabled."""
    for _node, binding, enabled, _tooltip in screen.active_bindings.values():
        if enabled and binding.id == binding_id:
            return binding.key_display or binding.key
    return ""
