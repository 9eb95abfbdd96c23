"""How far a stream reaches, and how it may be read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from natstui.jetstream.client import Client


@dataclass(frozen=True, slots=True)
class Bounds:
    """The sequences of a stream: `first` and `last` stored, as it says itself."""

    first_seq: int
    last_seq: int
    subjects_count: int
    message_bytes: int
    """Of one message, on average."""
    direct: bool


async def bounds_of(client: Client, stream: str) -> Bounds:
    """Ask a stream for its bounds; raises NotFound."""
    info: dict[str, Any] = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    state, config = info["state"], info["config"]
    return Bounds(
        state["first_seq"],
        state["last_seq"],
        state.get("num_subjects", 0),
        state["bytes"] // max(1, state["messages"]),
        config.get("allow_direct") is True,
    )
