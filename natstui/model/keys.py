"""The default keys of actions that sentences name, by the id of the binding.

A sentence has the id between backticks, as `stream.edit`; the screen shows the user's key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

DEFAULT_KEY_BY_ID: Mapping[str, str] = {
    "finding.act": ".",
    "finding.fold": "a",
    "finding.over": "f",
    "finding.hints": "i",
    "finding.silence": "z",
    "stream.edit": "e",
    "stream.purge": "P",
    "stream.delete": "ctrl+d",
    "stream.messages": "m",
    "stream.clone": "A",
    "consumer.add": "a",
    "consumer.edit": "e",
    "consumer.delete": "ctrl+d",
    "consumer.messages": "m",
    "consumer.clients": "W",
    "pull.next_of": "N",
    "msg.again": "x",
    "msg.delete": "ctrl+d",
    "connections.closed": "o",
    "screen.streams": "1",
    "screen.consumers": "2",
    "screen.events": "3",
    "screen.connections": "6",
    "undo": "u",
}
"""Id of a binding in a keymap → its default key, as it is displayed."""
_ID_PATTERN = re.compile(f"`({'|'.join(map(re.escape, DEFAULT_KEY_BY_ID))})`")


def insert_keys(text: str, key_by_id: Mapping[str, str] | None = None) -> str:
    """Return the text with the key of each named action: that in `key_by_id`, else the default."""
    keys = DEFAULT_KEY_BY_ID if key_by_id is None else {**DEFAULT_KEY_BY_ID, **key_by_id}
    return _ID_PATTERN.sub(lambda match: f"`{keys[match[1]]}`", text)
