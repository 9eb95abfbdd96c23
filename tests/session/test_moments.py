"""Every record has its moment: the live screen and the timeline count alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from natstui.lines import decode_record, encode_record
from natstui.model.bench.latency import from_latencies
from natstui.model.live.state import State
from natstui.model.records.evidence import AcksCounted
from natstui.model.records.record import AckSample, Advisory, Noted, Record
from natstui.model.records.recording import ClockStepped, ReplayPosition
from natstui.session.read.player import Player
from natstui.session.read.recording import Recording
from natstui.session.read.seek import plan_seek
from natstui.values import replace
from tests.session.making import fold, made
from tests.session.scenario import START_US, Scenario
from tests.session.test_seek import facts, replayed

pytestmark = pytest.mark.xdist_group("moments")

POLLS_PER_SEGMENT = 3


def second(number: float) -> int:
    return START_US + round(number * 1e6)


def late(at_us: int) -> Iterator[Record]:
    """What a server told before a poll, and was heard of only after it."""
    yield Advisory(at_us - 900, "nak", "S", "c", f"said before {at_us}", "{}")
    yield AckSample(at_us - 1200, "S", "c", 1, 1, 1, 5)
    yield Advisory(at_us - 300, "nak", "S", "c", f"said shortly before {at_us}", "{}")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    scenario = Scenario(streams=2, consumers=3)
    records = scenario.beginning()
    for number in range(1, 12):
        records += [scenario.poll(number), *late(second(number))]
        if number % 4 == 0:
            records.append(Noted(second(number + 0.3), f"note {number}"))
    return records


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> Recording:
    return Recording(made(tmp_path_factory.mktemp("sessions"), records, POLLS_PER_SEGMENT))


def lived(records: list[Record]) -> list[State]:
    """Return the live state after each record."""
    return [fold(records[: count + 1]) for count in range(len(records))]


def test_the_timeline_has_the_moments_of_the_live_screen(
    records: list[Record], recording: Recording
) -> None:
    assert len(recording.spans) > 3
    told = [us for s in recording.spans for us in recording.entry_times(s, recording.content(s))]
    assert told == [state.now_at_us for state in lived(records)]
    assert (recording.start_us, recording.end_us) == (told[0], told[-1])


def test_every_moment_shows_exactly_what_was_there_live(
    records: list[Record], recording: Recording
) -> None:
    for state in lived(records):
        assert facts(replayed(recording, state.now_at_us)) == facts(state)


def test_a_segment_of_nothing_but_what_is_late_comes_after_the_one_before(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    records = [scenario.poll(1), *late(second(1)), Noted(second(0.9), "x")]
    recording = Recording(made(tmp_path, records, 1))
    first, last = recording.spans
    assert first.end_us == last.start_us == second(1)
    assert recording.end_us == fold(records).now_at_us == second(1) + 4
    assert facts(replayed(recording, recording.end_us)) == facts(fold(records))


def test_a_jump_to_an_event_shows_it(records: list[Record], recording: Recording) -> None:
    player = Player(recording)
    marked = [r.text for r in records if isinstance(r, Advisory | Noted)]
    state = fold(map(decode_record, player.seek(second(1))))
    counts = []
    for mark in sorted({mark.at_us for mark in recording.marks()} - {recording.start_us}):
        if mark <= second(1):
            continue
        for line in player.seek_mark(forward=True):
            state = state.after(decode_record(line))
        assert player.at_us == mark
        texts = [it.text for it in state.recent_events if isinstance(it, Advisory | Noted)]
        assert texts == marked[: len(texts)]
        counts.append(len(texts))
    assert counts == sorted(set(counts)) and counts[-1] == len(marked)


def test_going_forward_meets_the_same_moments_as_a_seek(
    records: list[Record], recording: Recording
) -> None:
    player = Player(recording)
    state = fold(map(decode_record, player.seek(recording.start_us)))
    for expected in lived(records)[1:]:
        for line in player.play_until(expected.now_at_us):
            state = state.after(decode_record(line))
        assert encode_record(state.recent_events[-1]) == encode_record(expected.recent_events[-1])
        assert facts(state)["costs"] == expected.costs
        assert state.ack_samples == expected.ack_samples


def test_nothing_is_late_because_the_clock_was_set_back(tmp_path: Path) -> None:
    hour_us = 3_600_000_000
    scenario = Scenario(streams=1, consumers=1)
    after = replace(scenario.poll(3), taken_at_us=second(3) - hour_us)
    stepped = ClockStepped(second(2.5) - hour_us, -hour_us)
    recording = Recording(made(tmp_path, [scenario.poll(1), scenario.poll(2), stepped, after], 2))
    player = Player(recording)

    def newest_us(at_us: int) -> int | None:
        list(player.seek(at_us))
        position = decode_record(player.position())
        assert isinstance(position, ReplayPosition) and position.at_us == at_us
        return position.newest_at_us

    assert recording.end_us == second(3)
    moments = (second(1), second(2.2), second(2.7), second(3))
    assert [newest_us(at_us) for at_us in moments] == [
        second(1), second(2), second(2.5), second(3),
    ]  # fmt: skip


@pytest.mark.slow
def test_sampled_acknowledgements_add_up_to_the_same_wherever_reading_begins(
    tmp_path: Path,
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    records = scenario.beginning()
    for number in range(1, 10):
        records.append(scenario.poll(number))
        at_us = second(number + 0.1)
        records += [AckSample(at_us + n, "S", "c", n, n, 1 + n % 2, n) for n in range(400)]
        counted = from_latencies(range(1000 * number, 1000 * number + 50))
        records.append(AcksCounted(at_us + 500, "S", "c", counted, 3, number))
    recording = Recording(made(tmp_path, records, 2))
    assert plan_seek(recording, recording.end_us).first_samples_segment > 0
    # In the last second, and five seconds before it.
    for count in range(len(records) - 1, 0, -5 * 402):
        expected = fold(records[: count + 1])
        found = replayed(recording, expected.now_at_us)
        assert found.evidence == expected.evidence, count
        assert found.ack_samples == expected.ack_samples, count
