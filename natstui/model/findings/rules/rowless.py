"""Rules about streams and consumers without a row, of which only the name is known.

A stream whose server was down before the first poll never had a row, so that rules over rows
cannot find it.
"""

from __future__ import annotations

from collections.abc import Iterator

from natstui.model.findings.catalogue.consumers import RECREATED, UNREACHABLE
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.rowless import C_REFUSED, S_REFUSED, S_UNLISTED
from natstui.model.findings.catalogue.streams import S_UNREACHABLE
from natstui.model.findings.facts.memory import Memory
from natstui.model.findings.finding import Entity, Symptom
from natstui.model.findings.thresholds import RECREATED_FEWEST
from natstui.model.live.state import State
from natstui.units import counted


def rowless_conditions(state: State) -> Iterator[tuple[Entity, Kind, Symptom]]:
    """Yield the conditions of names without a row, and of those refused by their servers."""
    for (stream, consumer), reason in state.offline.items():
        kind = C_REFUSED if consumer else S_REFUSED
        yield Entity(stream, consumer), kind, Symptom(reason)
    for stream in state.rowless_streams():
        if (stream, "") not in state.offline:
            yield Entity(stream), S_UNREACHABLE, Symptom(S_UNREACHABLE.sentence)
    for stream, consumer in state.rowless_consumers():
        if (stream, consumer) not in state.offline:
            yield Entity(stream, consumer), UNREACHABLE, Symptom(UNREACHABLE.sentence)
    for stream, count in state.unlisted_count.items():
        yield Entity(stream), S_UNLISTED, Symptom(f"{counted(count, 'consumer')} not listed")


def recreated_again(memory: Memory) -> Iterator[tuple[Entity, Kind, Symptom]]:
    """Yield a condition for consumers that a client deletes and recreates repeatedly.

    Each of them is another entity, so the finding is about their name.
    """
    for (stream, consumer), times in memory.recreated_at_us.items():
        if len(times) >= RECREATED_FEWEST:
            text = f"recreated {len(times)} times in a minute"
            numbers = {"recreated_count": float(len(times))}
            yield Entity(stream, consumer), RECREATED, Symptom(text, times[0], numbers=numbers)
