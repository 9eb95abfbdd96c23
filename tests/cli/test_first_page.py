"""What an analysis prints while Spark starts: the findings that the recording itself holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from natstui.cli.sessions.analyze import MAX_FINDINGS_SHOWN, RecordedFindings
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.session.files.index import INDEX
from natstui.session.read.findings import read_findings
from tests.session import lost
from tests.session.making import made
from tests.session.scenario import START_US, Scenario

SECOND_US = 1_000_000
BEHIND = FindingReport(
    "NT-C23", "ORDERS", "billing", 7, "", START_US + 5 * SECOND_US, "900 more a minute"
)
REFUSED = FindingReport(
    "NT-C09", "ORDERS", "mailer", 8, "", START_US + 9 * SECOND_US, "64 of 64 \x1b[31mwait"
)


def recording(folder: Path) -> Path:
    """Return a recording of 200 s in several segments with two findings, one of them over."""
    scenario = Scenario(streams=1, consumers=2)
    over = replace(REFUSED, until_at_us=START_US + 70 * SECOND_US)
    news = (
        FindingsChanged(START_US + 9 * SECOND_US, (BEHIND, REFUSED)),
        FindingsChanged(START_US + 70 * SECOND_US, (over,)),
    )
    polls = [*scenario.beginning(), *scenario.records(0, 200)]
    return made(folder, [*polls[:40], news[0], *polls[40:120], news[1], *polls[120:]])


def test_the_findings_of_a_recording_are_read_without_its_polls(tmp_path: Path) -> None:
    folder = recording(tmp_path)
    told = {one.code: one for one in read_findings(folder)}
    assert told["NT-C23"] == BEHIND
    assert told["NT-C09"].until_at_us == START_US + 70 * SECOND_US
    assert (folder / INDEX).is_file()


def test_a_finding_whose_end_was_lost_ended_before_the_loss(tmp_path: Path) -> None:
    found = {(one.code, one.since_at_us): one for one in read_findings(lost.write(tmp_path))}
    ends = {key: one.until_at_us for key, one in found.items()}
    assert ends == {
        ("NT-S26", lost.STAYS.since_at_us): None,
        ("NT-S09", lost.ENDS.since_at_us): lost.WRITTEN_US,
        ("NT-S30", lost.RETURNS.since_at_us): lost.WRITTEN_US,
        ("NT-S30", lost.at_us(45)): None,
        ("NT-C07", lost.BEGINS.since_at_us): None,
    }
    assert found["NT-S30", lost.at_us(45)].text == "twice"


def test_the_first_page_says_what_was_wrong_since_when_and_is_harmless(tmp_path: Path) -> None:
    folder = recording(tmp_path)
    head, *lines = RecordedFindings((str(folder),)).lines()
    assert head == f"From the recording {folder.name}:"
    assert len(lines) == 2
    behind = next(line for line in lines if "NT-C23" in line)
    assert "of ORDERS > billing: 900 more a minute · since " in behind
    assert behind.endswith(" UTC, open")
    assert next(line for line in lines if "NT-C09" in line).endswith(", for 1m01s")
    assert "\x1b" not in "".join(lines)


def test_of_many_findings_the_others_are_counted(tmp_path: Path) -> None:
    many = tuple(replace(BEHIND, consumer=f"c-{number}") for number in range(25))
    scenario = Scenario(streams=1, consumers=2)
    news = FindingsChanged(START_US + SECOND_US, many)
    folder = made(tmp_path, [*scenario.beginning(), news, *scenario.records(0, 10)])
    lines = RecordedFindings((str(folder),)).lines()
    assert len(lines) == MAX_FINDINGS_SHOWN + 2
    assert lines[-1] == "  … and 15 more"


def test_what_cannot_be_read_here_has_no_first_page(tmp_path: Path) -> None:
    assert RecordedFindings(("s3a://bucket/a-session", str(tmp_path / "*"))).lines() == []


def result(session: str, drain_s: float | None, waits_s: float) -> dict[str, Any]:
    row = {"session": session, "stream": "ORDERS", "consumer": "billing", "created_at_us": 7,
           "pending_last_msgs": 3, "drain_s": drain_s, "behind_last_s": waits_s}  # fmt: skip
    columns = [{"name": name} for name in row]
    return {"tables": {"lag": {"columns": columns, "rows": [list(row.values())]}}}


def test_a_finding_that_the_analysis_contradicts_is_named(tmp_path: Path) -> None:
    folder = recording(tmp_path)
    page = RecordedFindings((str(folder),))
    (told,) = page.contradiction_lines(result(folder.name, 2.0, 0.5))
    assert told.startswith("The analysis contradicts ") and "(NT-C23) of ORDERS > billing" in told
    assert told.endswith(": 3 pending at the end, delivered within 2s")
    assert page.contradiction_lines(result(folder.name, None, 0.5)) == []
    assert page.contradiction_lines(result(folder.name, 200.0, 60.0)) == []
