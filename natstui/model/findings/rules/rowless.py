"""Rules about streams and consumers without a row, of which only the name is known.

A stream without a row is, for example, one whose server was down before the first poll.
"""

from __future__ import annotations

from collections.abc import Iterator

from natstui.model.findings.catalogue.consumers import CONSUMER_RECREATED, UNREACHABLE
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.rowless import (
    CONSUMER_UNSUPPORTED,
    CONSUMERS_UNLISTED,
    STREAM_UNSUPPORTED,
)
from natstui.model.findings.catalogue.streams import STREAM_UNREACHABLE
from natstui.model.findings.facts.memory import RuleMemory
from natstui.model.findings.finding import Entity, Symptom
from natstui.model.findings.thresholds import MIN_RECREATIONS
from natstui.model.live.state import State
from natstui.units import counted


def rowless_conditions(state: State) -> Iterator[tuple[Entity, Kind, Symptom]]:
    """Yield the conditions of names without a row, and of names that servers refuse to run."""
    for (stream, consumer), reason in state.offline.items():
        kind = CONSUMER_UNSUPPORTED if consumer else STREAM_UNSUPPORTED
        yield Entity(stream, consumer), kind, Symptom(reason)
    for stream in state.rowless_streams():
        if (stream, "") not in state.offline:
            yield Entity(stream), STREAM_UNREACHABLE, Symptom(STREAM_UNREACHABLE.sentence)
    for stream, consumer in state.rowless_consumers():
        if (stream, consumer) not in state.offline:
            yield Entity(stream, consumer), UNREACHABLE, Symptom(UNREACHABLE.sentence)
    for stream, count in state.unlisted_consumers_count.items():
        yield (
            Entity(stream),
            CONSUMERS_UNLISTED,
            Symptom(f"{counted(count, 'consumer')} not listed"),
        )


def recreation_conditions(memory: RuleMemory) -> Iterator[tuple[Entity, Kind, Symptom]]:
    """Yield a condition for each consumer that a client deletes and recreates repeatedly.

    Every recreated consumer is another entity, so the finding is about the name.
    """
    for (stream, consumer), times in memory.recreated_at_us.items():
        if len(times) >= MIN_RECREATIONS:
            text = f"recreated {len(times)} times in a minute"
            numbers = {"recreated_count": float(len(times))}
            yield (
                Entity(stream, consumer),
                CONSUMER_RECREATED,
                Symptom(text, times[0], numbers=numbers),
            )
