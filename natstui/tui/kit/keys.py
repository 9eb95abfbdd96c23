"""Which key does something on a screen, after the settings of the user moved some of them."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import Screen

_Result = TypeVar("_Result")


def key_of(screen: Screen[_Result], binding_id: str) -> str:
    """Return the first key of a binding that a screen offers now; empty when it offers none."""
    for _node, binding, enabled, _tooltip in screen.active_bindings.values():
        if enabled and binding.id == binding_id:
            return binding.key_display or binding.key
    return ""
