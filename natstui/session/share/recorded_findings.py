"""The findings of a recording, and the parts of it that could not be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from natstui.clean import clean_line
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.finding import Finding
from natstui.model.findings.recorded import finding_of
from natstui.model.live.state import State
from natstui.model.records.findings import FindingsChanged, FindingsSoFar
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify


def read_recorded_findings(
    folder: Path, report_progress: Callable[[int, int], None]
) -> tuple[State, list[Finding], list[str]]:
    """Return the last state, the findings that ended before it, and sentences about unreadable
    parts.

    `report_progress` is called with two lengths in µs: of the recording read so far, and of the
    complete recording. Raises SessionError if nothing can be read.
    """
    recording = Recording(folder, skips_unreadable_parts=True)
    ended_findings, state = list[Finding](), State()
    unknown_codes = set[str]()
    duration_us = max(1, recording.end_us - recording.start_us)
    for record in recording.records():
        if isinstance(record, FindingsChanged | FindingsSoFar):
            unknown_codes.update(
                finding.code for finding in record.findings if finding_of(finding) is None
            )
        previous_state, state = state, apply_and_evaluate(state, record)
        if state.findings is not previous_state.findings:
            ended_findings += state.findings.ended
        report_progress(
            min(duration_us, max(0, state.now_at_us - recording.start_us)), duration_us
        )
    unreadable_part_texts = describe_unreadable_parts(folder)
    if unknown_codes:
        codes = ", ".join(sorted(map(clean_line, unknown_codes))[:5])
        unreadable_part_texts.append(f"findings with codes unknown to this natstui: {codes}")
    return state, ended_findings, unreadable_part_texts


def describe_unreadable_parts(folder: Path) -> list[str]:
    """Return a sentence for each part of a recording that cannot be checked: its damage, or that
    it has no poll.
    """
    verdict = verify(folder)
    damage_texts = [finding.text for finding in verdict.findings if finding.damage]
    if not verdict.polls_count:
        damage_texts.append("it has no poll: nothing was checked")
    return damage_texts
