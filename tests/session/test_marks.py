"""Which moments are worth a jump."""

from natstui.model.records.benchmark import BenchmarkLog, BenchmarkPhase
from natstui.model.records.record import (
    AckSample,
    LinkChanged,
    Noted,
    Outcome,
    Restored,
    Unavailable,
)
from natstui.model.records.recording import ClockStepped, Gap, Mark
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.files.marks import MarkBuilder
from tests.session.scenario import START_US, Scenario


def test_events_have_marks_and_samples_have_none() -> None:
    marker = MarkBuilder(None)
    records = [
        Noted(1, "here\x1b[2J"),
        Outcome(2, 1, "refused", "read-only"),
        LinkChanged(3, "reconnecting", "the server closed the connection"),
        Gap(4, 1, 7, "not recording: disk full"),
        ClockStepped(5, -3_600_000_000),
        BenchmarkPhase(6, "run", "steady"),
        BenchmarkLog(7, "run", "worker pub/0 was killed"),
        AckSample(8, "S", "C", 1, 1, 1, 1),
    ]
    assert [marker.mark_of(record) for record in records] == [
        Mark(1, "note", "here␛[2J"),
        Mark(2, "action", "refused: read-only"),
        Mark(3, "link", "the server closed the connection"),
        Mark(4, "gap", "not recording: disk full"),
        Mark(5, "gap", "the clock was set back by 1h00m"),
        Mark(6, "benchmark", "run: steady"),
        Mark(7, "benchmark", "worker pub/0 was killed"),
        None,
    ]


def test_a_configuration_is_marked_when_it_changes_not_when_it_is_first_seen() -> None:
    scenario, memory = Scenario(streams=2, consumers=2), KeyframeBuilder()
    first = scenario.configured(START_US)
    assert MarkBuilder(None).mark_of(first) is None
    memory.add(first)
    memory.add(scenario.poll(1))
    marker = MarkBuilder(memory.keyframe(START_US))
    assert marker.mark_of(first) is None
    mark = marker.mark_of(scenario.configured(START_US + 5, max_bytes=7))
    assert mark == Mark(
        START_US + 5, "configuration", "configuration changed: ORDERS-000, ORDERS-001"
    )


def test_the_same_trouble_is_marked_once() -> None:
    marker = MarkBuilder(None)
    trouble = Unavailable(1, "STREAM.LIST", "no answer")
    assert marker.mark_of(trouble) == Mark(1, "unavailable", "STREAM.LIST: no answer")
    assert marker.mark_of(trouble) is None
    assert marker.mark_of(Restored(2, "STREAM.LIST")) is not None
    assert marker.mark_of(trouble) is not None


def test_what_the_next_engine_cannot_read_either_is_marked_again() -> None:
    marker = MarkBuilder(None)
    trouble = Unavailable(1, "STREAM.LIST", "no answer")
    started = next(iter(Scenario().beginning()))
    assert [marker.mark_of(record) is not None for record in (trouble, started, trouble)] == [
        True, False, True,
    ]  # fmt: skip
