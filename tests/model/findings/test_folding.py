"""The same cause at many entities is one line with how many they are, wherever it is read."""

from __future__ import annotations

import json

from natstui.cli.health.formats import format_json, format_text
from natstui.cli.health.report import FindingSelection, create_report
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.finding import group_findings
from natstui.model.live.state import State
from natstui.tui.frame.systems import SystemState
from natstui.tui.overview.panels import panels
from tests.model.builders import snapshot
from tests.model.findings.life import EPOCH_US, START_S


def _paused(count: int) -> State:
    """Return a state in which so many consumers are paused, and one stream lost messages."""
    rows = [
        {
            "stream": "S", "name": f"c{number:03}", "created_at_us": EPOCH_US, "leader": "n1",
            "paused": True, "pending_msgs": 4,
        }
        for number in range(count)
    ]  # fmt: skip
    stream = {"name": "S", "created_at_us": EPOCH_US, "leader": "n1", "lost_msgs": 7}
    state = State()
    for second in range(4):
        state = apply_and_evaluate(state, snapshot(START_S + second, [stream], rows))
    return state


def test_many_of_a_kind_are_one_line_and_few_are_not() -> None:
    for count, lines in ((0, 1), (3, 4), (4, 2), (40, 2)):
        every = group_findings(_paused(count).findings.list_open_findings())
        assert len(every) == lines
        assert sum(1 + len(line.others) for line in every) == count + 1
    assert [line.worst.kind.code for line in every] == ["NT-S04", "NT-C27"]
    assert every[1].others_text == "and 39 others"
    # Of equals the first by name, in whatever order they were found: live as in a replay.
    backwards = group_findings(reversed(_paused(40).findings.list_open_findings()))
    assert [line.worst for line in backwards] == [line.worst for line in every]


def test_health_writes_one_paragraph_for_all_of_a_kind_and_counts_them_in_json() -> None:
    report = create_report(_paused(40), FindingSelection())
    text = format_text(report)
    assert "1 critical, 40 warnings" in text.splitlines()[0]
    assert text.count("NT-C27") == 1 and text.count("NT-S04") == 1
    assert "and 39 others of the same kind: S > c001, S > c002, " in text
    assert "S > c010 and 29 more\n" in text
    told = json.loads(format_json(report))
    assert told["findings_count"] == {"NT-S04": 1, "NT-C27": 40}
    assert len(told["findings"]) == 41


def test_the_overview_has_one_row_for_all_of_a_kind() -> None:
    wrong = next(
        panel for panel in panels([SystemState("", "", _paused(40), 0)]) if panel.id == "wrong"
    )
    cells = [[cell.text for cell in wrong.rows.cells(row)] for row in wrong.rows.order]
    assert [row[1] for row in cells] == ["S", "S › c000 and 39 others"]
