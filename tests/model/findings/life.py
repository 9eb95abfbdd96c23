"""A consumer and its stream that live second by second, and what is found of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.model.records.record import Advisory, Configured, LinkChanged, Record
from natstui.values import replace
from tests.model.builders import snapshot
from tests.session.scenario import consumer, stream

EPOCH_US = 1_700_000_000_000_000
"""What `tests.model.builders.snapshot` adds to a time in seconds."""
START_S = 1_000


def at_us(second: float) -> int:
    """Return a moment of the life, UTC."""
    return EPOCH_US + round((START_S + second) * 1e6)


class Life:
    """Polls of one stream S and its consumer C, one a second unless told otherwise."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        stream_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.state = State()
        self.second = 0.0
        self.consumer: dict[str, Any] = {
            "stream": "S", "name": "C", "created_at_us": at_us(-600), "leader": "n1",
        }  # fmt: skip
        self.stream: dict[str, Any] = {
            "name": "S", "created_at_us": at_us(-600), "leader": "n1", "first_seq": 1,
            "last_seq": 100, "stored_msgs": 100, "stored_bytes": 1000, "consumers_count": 1,
        }  # fmt: skip
        self.is_there = True
        self.configure(config or {}, stream_config or {})

    def configure(self, config: Mapping[str, Any], stream_config: Mapping[str, Any]) -> None:
        """Set the configurations; `settings` are those that only the JSON has."""
        made = [dict(config), dict(stream_config)]
        whole = [json.dumps(each.pop("settings", {})) for each in made]
        one = replace(consumer("S", "C", at_us(-600)), config_json=whole[0], **made[0])
        other = replace(stream("S", at_us(-600)), config_json=whole[1], **made[1])
        self.add(Configured(at_us(self.second), (other,), (one,)))

    def add(self, *records: Record) -> None:
        """Take records as a viewer does."""
        for record in records:
            self.state = apply_and_evaluate(self.state, record)

    def poll(
        self, *, step_s: float = 1.0, stream: Mapping[str, Any] | None = None, **c: Any
    ) -> None:
        """Poll once more, with these columns changed."""
        self.second += step_s
        self.consumer |= c
        self.stream |= stream or {}
        consumers = [self.consumer] if self.is_there else []
        self.add(snapshot(START_S + self.second, [self.stream], consumers))

    def polls(self, count: int, **columns: Any) -> None:
        """Poll several times with the same columns."""
        for _ in range(count):
            self.poll(**columns)

    def advise(
        self, kind: str, seq: int, deliveries: int = 1, count: int = 1, **more: Any
    ) -> None:
        """Let the server announce something of a message."""
        body = json.dumps({"stream_seq": seq, "deliveries": deliveries, **more})
        for _ in range(count):
            now_us = at_us(self.second + 0.5)
            self.add(Advisory(now_us, kind, "S", "C", f"{kind} {seq}", body))

    def link(self, state: Any, reason: str | None = None) -> None:
        """Change the connection."""
        self.add(LinkChanged(at_us(self.second + 0.2), state, reason))

    @property
    def open(self) -> dict[str, Finding]:
        """What is open now, by code."""
        return {one.kind.code: one for one in self.state.findings.list_open_findings()}

    @property
    def words(self) -> set[str]:
        """The words of what is open now."""
        return {one.kind.word for one in self.state.findings.list_open_findings()}

    @property
    def over(self) -> dict[str, Finding]:
        """What is over, by code."""
        return {one.kind.code: one for one in self.state.findings.resolved}
