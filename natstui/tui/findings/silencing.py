"""What is asked before a finding is silenced, and what is made of the answer. Pure."""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.model.assets.meaning.understood import understood_duration
from natstui.model.findings.finding import Finding
from natstui.model.records.managing import SilenceFinding
from natstui.tui.findings.cells import entity_text
from natstui.units import parse_duration_ns

_EXAMPLE = "1h the client is being mended"
_LONGEST_S = 366 * 86_400.0


def silence_question(finding: Finding) -> str:
    """Return the question above the line."""
    what = f"{finding.kind.code} {finding.kind.word} of {entity_text(finding.entity)}"
    return f"Silence {what}: for how long, and why? As {_EXAMPLE}"


def _parts(text: str) -> tuple[float, str]:
    """Return for how long and why; raises ValueError for what is no time."""
    time, _, reason = text.strip().partition(" ")
    return parse_duration_ns(time) / 1e9, clean_line(reason.strip())


def silence_refusal(text: str) -> str:
    """Return why an answer is not taken; empty: it is taken."""
    try:
        for_s, reason = _parts(text)
    except ValueError as error:
        return f"The first word is no time ({error}): write it as {_EXAMPLE}"
    if not 0 < for_s <= _LONGEST_S:
        return "The time must be longer than 0 and at most a year"
    return "" if reason else f"A reason is missing: write it as {_EXAMPLE}"


def silence_meaning(text: str) -> str:
    """Return for how long an answer silences, in words; empty where that is not known yet."""
    return understood_duration(text.strip().partition(" ")[0])


def silence_command(finding: Finding, text: str | None) -> SilenceFinding:
    """Return the command: with the answer to the question, or to hear of it again without."""
    for_s, reason = (None, "") if text is None else _parts(text)
    entity = finding.entity
    return SilenceFinding(
        0,
        finding.kind.code,
        entity.stream,
        entity.consumer,
        entity.created_at_us,
        entity.part,
        reason,
        for_s,
    )
