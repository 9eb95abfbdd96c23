"""The marks on the timeline: which records have one, and its text."""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.records.benchmark import (
    BenchmarkFinished,
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
)
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    Advisory,
    Configured,
    EngineStarted,
    Noted,
    Outcome,
    Record,
    Restored,
    Unavailable,
)
from natstui.model.records.recording import ClockStepped, Gap, Mark
from natstui.session.files.keyframe import Keyframe
from natstui.units import duration_text

_MAX_TEXT_CHARACTERS = 200


class MarkBuilder:
    """Creates the marks of the records of a segment; the records must be in order."""

    def __init__(self, keyframe: Keyframe | None) -> None:
        self._streams: dict[str, StreamConfiguration] = {}
        self._consumers: dict[tuple[str, str], ConsumerConfiguration] = {}
        self._reason_by_unavailable_data: dict[str, str] = {}
        if keyframe is not None:
            self._update_configurations(keyframe.configured)
            self._reason_by_unavailable_data = {
                failure.what: failure.reason for failure in keyframe.unavailable
            }

    def mark_of(self, record: Record) -> Mark | None:
        """Return the mark of a record; None if it has none."""
        match record:
            case Advisory():
                return _create_mark(record.at_us, "advisory", record.text)
            case Noted():
                return _create_mark(record.at_us, "note", record.text)
            case LinkChanged():
                return _create_mark(record.at_us, "link", record.reason or record.state)
            case Outcome():
                return _create_mark(record.at_us, "action", f"{record.status}: {record.text}")
            case Configured():
                changes_text = self._update_configurations(record)
                return (
                    _create_mark(record.at_us, "configuration", changes_text)
                    if changes_text
                    else None
                )
            case Unavailable() | Restored():
                return self._availability_mark(record)
            case EngineStarted():
                self._reason_by_unavailable_data.clear()
                return None
            case Gap():
                return _create_mark(record.at_us, "gap", record.reason)
            case ClockStepped():
                return _create_mark(record.at_us, "gap", clock_step_text(record.step_us))
            case _:
                return _benchmark_mark(record)

    def _update_configurations(self, record: Configured) -> str:
        """Update the last configurations; return the text of the changes, empty if there are
        none.
        """
        changed_asset_labels = []
        for stream in record.streams:
            previous_stream = self._streams.get(stream.name)
            if (
                previous_stream
                and previous_stream.created_at_us == stream.created_at_us
                and previous_stream != stream
            ):
                changed_asset_labels.append(stream.name)
            self._streams[stream.name] = stream
        for consumer in record.consumers:
            key = (consumer.stream, consumer.name)
            previous_consumer = self._consumers.get(key)
            is_same_consumer = (
                previous_consumer and previous_consumer.created_at_us == consumer.created_at_us
            )
            if is_same_consumer and previous_consumer != consumer:
                changed_asset_labels.append(f"{consumer.stream} > {consumer.name}")
            self._consumers[key] = consumer
        return (
            f"configuration changed: {', '.join(changed_asset_labels[:5])}"
            if changed_asset_labels
            else ""
        )

    def _availability_mark(self, record: Unavailable | Restored) -> Mark | None:
        if isinstance(record, Restored):
            self._reason_by_unavailable_data.pop(record.what, None)
            return _create_mark(record.at_us, "unavailable", f"{record.what} can be read again")
        if self._reason_by_unavailable_data.get(record.what) == record.reason:
            return None
        self._reason_by_unavailable_data[record.what] = record.reason
        return _create_mark(record.at_us, "unavailable", f"{record.what}: {record.reason}")


def _benchmark_mark(record: Record) -> Mark | None:
    match record:
        case BenchmarkPlanned():
            return _create_mark(record.at_us, "benchmark", f"{record.run_id} begins")
        case BenchmarkPhase():
            return _create_mark(record.at_us, "benchmark", f"{record.run_id}: {record.phase}")
        case BenchmarkLog():
            return _create_mark(record.at_us, "benchmark", record.text)
        case BenchmarkFinished():
            return _create_mark(
                record.at_us, "benchmark", f"{record.run_id}: {record.result.verdict}"
            )
        case _:
            return None


def clock_step_text(step_us: int) -> str:
    """Return a sentence that says by how much the clock was set, forward or back."""
    direction = "forward" if step_us > 0 else "back"
    return f"the clock was set {direction} by {duration_text(abs(step_us) / 1e6)}"


def _create_mark(at_us: int, kind: str, text: str) -> Mark:
    return Mark(at_us, kind, clean_line(text)[:_MAX_TEXT_CHARACTERS])  # type: ignore[arg-type]
