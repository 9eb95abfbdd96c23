"""What an engine reports of a few streams and consumers, for a viewer that is given records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.records.record import Configured, EngineStarted, Record
from natstui.values import replace
from tests.model.builders import snapshot
from tests.session.scenario import Scenario, consumer, stream

BORN_US = 1_699_999_000_000_000
"""When streams and consumers were made: some time before the first poll."""


def engine_records(
    streams: Mapping[str, Sequence[str]] | None = None, **started: Any
) -> list[Record]:
    """Return the records up to the first poll; `streams` are names, and names of their consumers.

    The streams store 1, 3, 5, … messages. `started` are fields of the EngineStarted.
    """
    streams = streams or {}
    beginning = Scenario().beginning()
    assert isinstance(beginning[0], EngineStarted)
    pairs = [(owner, name) for owner, names in streams.items() for name in names]
    configured = Configured(
        BORN_US,
        tuple(map(stream_configuration, streams)),
        tuple(consumer(owner, name, BORN_US) for owner, name in pairs),
    )
    poll = snapshot(
        1,
        [
            {"name": name, "created_at_us": BORN_US, "stored_msgs": 2 * at + 1}
            for at, name in enumerate(streams)
        ],
        [{"stream": owner, "name": name, "created_at_us": BORN_US} for owner, name in pairs],
    )
    return [replace(beginning[0], **started), *beginning[1:-1], configured, poll]


def stream_configuration(name: str) -> StreamConfiguration:
    """Return the configuration of a stream with one subject."""
    subject = f"{name.lower()}.>"
    config_json = json.dumps({"name": name, "subjects": [subject]})
    limited = stream(name, BORN_US, 10**9)
    return replace(limited, subjects=(subject,), config_json=config_json)
