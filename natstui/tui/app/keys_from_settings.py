"""Checks the keys of the settings: Textual accepts unknown actions and keys silently."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import unicodedata
from collections.abc import Iterator, Mapping

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_ALIASES, Keys

_MODIFIERS = {"ctrl", "shift", "alt", "super", "meta", "hyper"}
_NAMED = {key.value for key in Keys} | {"space"}
_TAKEN_BY_TERMINALS = {"ctrl+h": "backspace", "ctrl+i": "tab", "ctrl+m": "enter"}


def checked_keys(keymap: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid part of a keymap, and one sentence for each invalid entry."""
    binding_ids = {binding.id for binding in _imported()}
    if not keymap.keys() <= binding_ids:
        binding_ids = {binding.id for binding in every_binding()}
    good, complaints = {}, []
    for action, keys in keymap.items():
        if action not in binding_ids:
            nearest = difflib.get_close_matches(action, filter(None, binding_ids), 1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            complaints.append(f"viewer.keys: there is no action {action!r}{hint}")
        elif bad := [key for key in keys.split(",") if not _is_key(key.strip())]:
            complaints.append(f"viewer.keys.{action}: {bad[0]!r} is not a key")
        elif reserved := [key for key in keys.split(",") if key.strip() in _TAKEN_BY_TERMINALS]:
            equivalent = _TAKEN_BY_TERMINALS[reserved[0].strip()]
            complaints.append(
                f"viewer.keys.{action}: terminals cannot tell {reserved[0]!r} from {equivalent}"
            )
        else:
            good[action] = keys
    return good, complaints


def _is_key(key: str) -> bool:
    *modifiers, last = key.split("+") if key != "+" else ["+"]
    if not set(modifiers) <= _MODIFIERS:
        return False
    if len(last) == 1 or last in _NAMED or last in KEY_ALIASES:
        return True
    return _is_character_name(last)


def _is_character_name(name: str) -> bool:
    """Return whether a name is Textual's name of a character, as `question_mark`."""
    unicode_name = name.replace("_", " ").upper()
    for candidate in (unicode_name, unicode_name.replace(" SIGN", "-SIGN")):
        try:
            unicodedata.lookup(candidate)
        except KeyError:
            continue
        return True
    return name in {"minus", "slash", "backslash", "underscore"}


def every_binding() -> list[Binding]:
    """Return every binding that has an id, also of screens that were not opened yet."""
    package = importlib.import_module("natstui.tui")
    for module in pkgutil.walk_packages(package.__path__, "natstui.tui."):
        if not module.name.startswith("natstui.tui.kit."):
            importlib.import_module(module.name)
    return list(_imported())


def _imported() -> Iterator[Binding]:
    """Yield every binding with an id of every imported class."""
    waiting: list[type] = [DOMNode]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        for binding in cls.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id:
                yield binding
