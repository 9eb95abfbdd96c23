"""The columns of findings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from natstui.clean import clean_line
from natstui.model.columns.column import Column, JsonField, column, dim_level, json_column
from natstui.model.findings.finding import Entity, Finding
from natstui.model.records.silences import Silence
from natstui.units import duration_text


class FindingRow(Struct, frozen=True):
    """A finding at one moment, with the silence of an open one."""

    finding: Finding
    now_us: int
    """The time (UTC µs) at which the age of an open finding ends."""
    silence: Silence | None = None
    others_text: str = ""
    """Text with the number of findings that the row stands for, such as `(3 times)`."""

    @property
    def is_open(self) -> bool:
        """Return whether the finding is open and not silenced."""
        return self.finding.until_us is None and self.silence is None

    @property
    def severity_text(self) -> str:
        """Return the severity of an open finding, else `over` or `silenced`."""
        if self.is_open:
            return self.finding.kind.severity
        return "over" if self.finding.until_us is not None else "silenced"

    @property
    def time_text(self) -> str:
        """Return the age of an open finding, the time since the end, or what is left of the
        silence.
        """
        if self.finding.until_us is not None:
            return f"{duration_text(self._s_since(self.finding.until_us))} ago"
        if self.silence is not None:
            return duration_text((self.silence.until_us - self.now_us) / 1e6)
        return duration_text(self._s_since(self.finding.since_us))

    @property
    def what_text(self) -> str:
        """Return the label and evidence; of a silenced finding after the reason of the silence."""
        text = evidence_text(self.finding)
        return text if self.silence is None else f"{self.silence.reason}  ·  {text}"

    def _s_since(self, at_us: int) -> float:
        return max(0.0, (self.now_us - at_us) / 1e6)


def entity_text(entity: Entity) -> str:
    """Return the name of a finding's entity, on one line without control characters."""
    if not entity.consumer:
        return clean_line(entity.text)
    return clean_line(
        " ".join(filter(None, (f"{entity.stream} › {entity.consumer}", entity.part)))
    )


def evidence_text(finding: Finding) -> str:
    """Return the label and evidence of a finding, on one line."""
    return clean_line(f"{finding.kind.word}: {finding.text}")


def _level(row: FindingRow) -> str:
    return "" if row.is_open else "dim"


_text: Callable[..., Column[FindingRow]] = partial(column, format=str, numeric=False)
_json: Callable[..., Column[FindingRow]] = json_column
_ENTITY_NAME = str | None

FINDING_COLUMNS: tuple[Column[FindingRow], ...] = (
    _text("code", "CODE", "Code of the finding: `natstui health --list` prints all of them.",
          lambda row: row.finding.kind.code, level=dim_level, json=JsonField("code", str),
          priority=4),
    _text("severity", "SEVERITY",
          "Critical, warning or info; silenced with `z`; over: the finding has ended recently.",
          lambda row: row.finding.kind.severity, text=lambda row: row.severity_text,
          level=lambda row: row.finding.kind.level if row.is_open else "dim",
          json=JsonField("severity", str, help="Critical, warning or info."), priority=0),
    _json(JsonField("entity", str), lambda row: row.finding.kind.entity, "Kind of entity."),
    _json(JsonField("stream", _ENTITY_NAME), lambda row: row.finding.entity.stream or None,
          "Name of the stream."),
    _json(JsonField("consumer", _ENTITY_NAME), lambda row: row.finding.entity.consumer or None,
          "Name of the consumer."),
    _json(JsonField("created_at_us", int | None),
          lambda row: row.finding.entity.created_at_us or None,
          "Creation time of the stream or consumer."),
    _json(JsonField("part", _ENTITY_NAME), lambda row: row.finding.entity.part or None,
          "Part of the entity: a source, unavailable data."),
    _text("entity", "WHERE",
          "Stream, consumer, server or account concerned, or the data that cannot be read.",
          lambda row: row.finding.entity.text,
          text=lambda row: " ".join(
              filter(None, (entity_text(row.finding.entity), row.others_text))),
          level=lambda row: "strong" if row.is_open else "dim", priority=1),
    _text("what", "WHAT", "Label of the finding, and the numbers that show it.",
          lambda row: row.finding.kind.word, text=lambda row: row.what_text, level=_level,
          json=JsonField("word", str, help="Label of the finding."), priority=2),
    _json(JsonField("sentence", str), lambda row: row.finding.kind.sentence,
          "Meaning of the label."),
    _json(JsonField("evidence", str), lambda row: row.finding.text, "Evidence, as a sentence."),
    _json(JsonField("numbers", dict), lambda row: dict(row.finding.numbers),
          "Numbers of the evidence, by name."),
    _json(JsonField("sequences", list), lambda row: list(row.finding.sequences),
          "Sequences of the affected messages, the worst first."),
    column("since", "FOR",
           "Duration of an open finding, time since the end, or remaining time of the silence.",
           lambda row: -row.finding.since_us, str, level=_level, text=lambda row: row.time_text,
           priority=3),
    _json(JsonField("since_us", int), lambda row: row.finding.since_us, "Start."),
    _json(JsonField("until_us", int | None), lambda row: row.finding.until_us,
          "End; null while it is open."),
    _json(JsonField("check", str), lambda row: row.finding.kind.check, "The first check to do."),
    _json(JsonField("act", str), lambda row: row.finding.act, "What to do."),
    _json(JsonField("peer", _ENTITY_NAME), lambda row: row.finding.kind.peer or None,
          "The equivalent check of another tool."),
)  # fmt: skip
