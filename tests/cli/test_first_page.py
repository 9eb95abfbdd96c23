"""What an analysis prints while Spark starts: the findings that the recording itself holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natstui.cli.sessions.first_page import MAX_FINDINGS_SHOWN, RecordedFindings
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.session.files.index import INDEX
from natstui.session.read.findings import read_findings
from natstui.values import replace
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


Tables = dict[str, tuple[dict[str, Any], ...]]
END_US = START_US + 200 * SECOND_US


def result(session_name: str, /, **tables: Any) -> dict[str, Any]:
    """Return the result of an analysis with some rows of tables, all of one session."""
    found = {}
    for name, rows in tables.items():
        columns = [{"name": column} for column in ("session", *rows[0])]
        found[name] = {"columns": columns, "rows": [[session_name, *row.values()] for row in rows]}
    return {"tables": found}


def lag(pending_msgs: int, drain_s: float | None, waits_s: float, created_at_us: int) -> Any:
    row = {"stream": "ORDERS", "consumer": "billing", "created_at_us": created_at_us,
           "pending_last_msgs": pending_msgs, "drain_s": drain_s, "behind_last_s": waits_s,
           "unseen_s": 0.0}  # fmt: skip
    return (row,)


def test_a_finding_that_the_analysis_contradicts_is_named(tmp_path: Path) -> None:
    folder = recording(tmp_path)
    page = RecordedFindings((str(folder),))
    (told,) = page.contradiction_lines(result(folder.name, lag=lag(3, 2.0, 0.5, 7)))
    assert told.startswith("The analysis contradicts ") and "(NT-C23) of ORDERS > billing" in told
    assert told.endswith(": 3 pending at the end, delivered within 2s")
    assert page.contradiction_lines(result(folder.name, lag=lag(3, None, 0.5, 7))) == []
    assert page.contradiction_lines(result(folder.name, lag=lag(3, 200.0, 60.0, 7))) == []
    # Another consumer of that name.
    assert page.contradiction_lines(result(folder.name, lag=lag(3, 2.0, 0.5, 6))) == []


def stuck(until_us: int, *, is_open: bool) -> Any:
    return ({"stream": "ORDERS", "consumer": "billing", "created_at_us": 7,
             "end_at_us": until_us, "open": is_open},)  # fmt: skip


def poison(sequence: int, *, is_acked: bool) -> Any:
    row = {"stream": "ORDERS", "consumer": "billing", "stream_seq": sequence, "acked": is_acked}
    return (row,)


def availability(kind: str, consumer: str | None, start_us: int, end_us: int | None) -> Any:
    row = {"kind": kind, "stream": "ORDERS", "consumer": consumer, "start_at_us": start_us,
           "end_at_us": end_us, "detail": "s1 → s2"}  # fmt: skip
    return (row,)


def capacity(stored_msgs: int, growth_msgs_per_s: float | None) -> Any:
    row = {"stream": "ORDERS", "created_at_us": 7, "stored_msgs": stored_msgs, "max_msgs": 100,
           "stored_bytes": 1, "max_bytes": None, "growth_msgs_per_s": growth_msgs_per_s,
           "growth_bytes_per_s": 5.0}  # fmt: skip
    return (row,)


OF_STREAM, SINCE_US = {"consumer": ""}, START_US + 100 * SECOND_US
SESSION = {"session": ({"end_at_us": END_US},)}
LATER_US, EARLIER_US = SINCE_US + SECOND_US, SINCE_US - SECOND_US
CONTRADICTED: dict[str, tuple[dict[str, Any], Tables, Tables, str]] = {
    "NT-C07": ({}, {"lag": lag(0, 0.0, 0.0, 7)}, {"lag": lag(1, 0.0, 0.0, 7)},
               "no message was pending at the end"),
    "NT-C08": ({}, {"lag": lag(0, 0.0, 0.0, 7)}, {"lag": lag(9, None, 0.0, 7)},
               "no message was pending at the end"),
    "NT-C42": ({}, {"stuck": stuck(LATER_US, is_open=False)},
               {"stuck": stuck(LATER_US, is_open=True)}, "its ack floor moved after "),
    "NT-C43": ({}, {"stuck": stuck(LATER_US, is_open=False)},
               {"stuck": stuck(EARLIER_US, is_open=False)}, "its ack floor moved after "),
    "NT-C05": ({"sequences": (5,)}, {"poison": poison(5, is_acked=True)},
               {"poison": poison(6, is_acked=True)}, "message 5 was acked"),
    "NT-C01": ({}, {"availability": availability("unreachable", "billing", SINCE_US, LATER_US)},
               {"availability": availability("unreachable", "billing", SINCE_US, END_US)},
               "its leader replied after "),
    "NT-S01": (OF_STREAM, {"availability": availability("unreachable", None, SINCE_US, LATER_US)},
               {"availability": availability("unreachable", "billing", SINCE_US, LATER_US)},
               "its leader replied after "),
    "NT-S02": (OF_STREAM, {"availability": availability("leader_change", None, LATER_US, None)},
               {"availability": availability("leader_change", None, EARLIER_US, None)},
               "a leader was elected at "),
    "NT-S05": (OF_STREAM, {"capacity": capacity(60, 9.0)}, {"capacity": capacity(100, None)},
               "60 % full at the end"),
    "NT-S26": (OF_STREAM, {"capacity": capacity(60, 0.0)}, {"capacity": capacity(99, 0.0)},
               "60 % full at the end, and it did not grow"),
    "NT-S42": (OF_STREAM, {"capacity": capacity(60, -0.5)}, {"capacity": capacity(60, None)},
               "60 % full at the end, and it did not grow"),
}  # fmt: skip
"""Finding → its fields, rows that contradict it, rows that do not, the reason that is told."""


@pytest.mark.parametrize("code", CONTRADICTED)
def test_findings_of_every_kind_are_held_to_what_the_analysis_says_at_the_end(
    code: str, tmp_path: Path
) -> None:
    fields, against, beside, reason = CONTRADICTED[code]
    page, folder = page_of(tmp_path, replace(BEHIND, code=code, since_at_us=SINCE_US, **fields))
    (told,) = page.contradiction_lines(result(folder.name, **against, **SESSION))
    assert f"({code}) of ORDERS" in told
    assert f": {reason}" in told
    assert page.contradiction_lines(result(folder.name, **beside, **SESSION)) == []
    over = replace(BEHIND, code=code, since_at_us=SINCE_US, until_at_us=LATER_US, **fields)
    page, folder = page_of(tmp_path / "over", over)
    assert page.contradiction_lines(result(folder.name, **against, **SESSION)) == []


def page_of(folder: Path, *findings: FindingReport) -> tuple[RecordedFindings, Path]:
    """Write a recording with findings; return what is printed of them, and the recording."""
    scenario = Scenario(streams=1, consumers=2)
    news = FindingsChanged(SINCE_US, findings)
    session = made(folder, [*scenario.beginning(), *scenario.records(0, 10), news])
    return RecordedFindings((str(session),)), session


def test_a_limit_of_consumers_is_not_held_to_the_messages(tmp_path: Path) -> None:
    near = replace(BEHIND, code="NT-S26", consumer="", numbers={"max_consumers": 4})
    page, folder = page_of(tmp_path, near)
    assert page.contradiction_lines(result(folder.name, capacity=capacity(60, None))) == []


def test_of_many_contradictions_the_others_are_counted_and_hidden_findings_are_held_too(
    tmp_path: Path,
) -> None:
    names = [f"c-{number:02d}" for number in range(25)]
    page, folder = page_of(tmp_path, *(replace(BEHIND, consumer=name) for name in names))
    rows = tuple(row | {"consumer": name} for name in names for row in lag(3, 2.0, 0.5, 7))
    lines = page.contradiction_lines(result(folder.name, lag=rows))
    assert len(lines) == MAX_FINDINGS_SHOWN + 1
    assert lines[-1] == "  … and 15 more"
    (told,) = page.contradiction_lines(result(folder.name, lag=rows[-1:]))
    assert "ORDERS > c-24" in told
