"""The default keys of actions and of what sentences name, by the id of the binding.

Bindings read their keys from here. A sentence has the id between backticks, as `stream.edit`; the
screen shows the user's key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

DEFAULT_KEYS: Mapping[str, str] = {
    "bucket.add": "a",
    "connection.kick": "K",
    "connections.closed": "o",
    "consumer.add": "a",
    "consumer.clients": "W",
    "consumer.clone": "A",
    "consumer.dead": "D",
    "consumer.delete": "ctrl+d",
    "consumer.edit": "e",
    "consumer.messages": "m",
    "consumer.tap": "T",
    "dead.again": "x",
    "finding.act": ".",
    "key.delete": "ctrl+d",
    "key.edit": "e",
    "key.purge": "P",
    "key.put": "a",
    "key.revert": "x",
    "message.again": "x",
    "msg.again": "x",
    "msg.delete": "ctrl+d",
    "msg.pull": "N",
    "msg.write": "w",
    "object.delete": "ctrl+d",
    "object.link": "L",
    "object.put": "a",
    "object.seal": "S",
    "pull.next_of": "N",
    "screen.connections": "6",
    "screen.consumers": "2",
    "screen.events": "3",
    "screen.streams": "1",
    "server.remove": "ctrl+d",
    "stream.add": "a",
    "stream.clone": "A",
    "stream.delete": "ctrl+d",
    "stream.edit": "e",
    "stream.messages": "m",
    "stream.publishers": "W",
    "stream.purge": "P",
    "undo": "u",
}
"""Id of a binding in a keymap → its default key, as it is displayed."""
_ID_PATTERN = re.compile(f"`({'|'.join(map(re.escape, DEFAULT_KEYS))})`")


def insert_keys(text: str, key_by_id: Mapping[str, str] | None = None) -> str:
    """Return the text with the key of each named action: that in `key_by_id`, else the default."""
    keys = DEFAULT_KEYS if key_by_id is None else {**DEFAULT_KEYS, **key_by_id}
    return _ID_PATTERN.sub(lambda match: f"`{keys[match[1]]}`", text)
