"""The page and the text: hostile names stay text, and nothing is fetched from anywhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from natstui.analysis.page import page
from natstui.analysis.phrase import cell_text
from natstui.analysis.report import SECTIONS, shown
from natstui.cli.analyze_text import report_lines
from natstui.units import title_text

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</table></body><iframe src='http://example.com'>",
    "\x1b]52;c;ZXZpbA==\x07\x1b[31mred",
    "a\u202eb\u2066c\u200b",
    "'; javascript:alert(1) //",
    "]]><svg onload=alert(1)>",
    "&lt;script&gt; &#60;script&#62;",
    "{{constructor}} ${alert(1)}",
    "</style></title></script><base href=//evil>",
)
NAMES_COUNT = 10_000
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "input", "main",
    "section", "p", "div", "table", "thead", "tbody", "tr", "th", "td", "script", "svg", "path",
    "text", "line", "figure", "figcaption",
}  # fmt: skip


def result(names_count: int) -> dict[str, Any]:
    """A result in which every text is hostile."""
    tables: dict[str, Any] = {}
    for section in SECTIONS:
        columns = [
            {"name": n, "type": "string", "unit": "", "meaning": ""} for n in section.columns
        ]
        tables[section.table] = {"meaning": "", "columns": columns, "rows": [], "cut": False}
    stuck = tables["stuck"]
    for number in range(names_count):
        name = f"{HOSTILE[number % len(HOSTILE)]}-{number}"
        stuck["rows"].append([name for _ in stuck["columns"]])
    load = ("session", "bucket_at_us", "published_per_s", "delivered_per_s", "pending_mean_msgs")
    rows = [[HOSTILE[0], at * 60_000_000, 1.0 * at, None, 3.0] for at in range(5)]
    tables["load"] = {
        "meaning": "",
        "columns": [{"name": n, "type": "", "unit": "", "meaning": ""} for n in load],
        "rows": rows,
        "cut": False,
    }
    return {"out": HOSTILE[3], "sessions": [HOSTILE[0], "B"], "tables": tables}


class Seen(HTMLParser):
    """Collects every tag and attribute, and the text of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside == "td":
            self.cells.append(data)
        self._inside = ""


def test_ten_thousand_hostile_names_are_text_and_nothing_else() -> None:
    document = page(result(NAMES_COUNT))
    seen = Seen()
    seen.feed(document)
    assert set(seen.tags) <= ALLOWED
    assert (seen.tags["script"], seen.tags["style"]) == (1, 1)
    assert not {name for name in seen.attributes if name.startswith("on")}
    assert not {"src", "href", "action", "style", "srcdoc"} & seen.attributes
    columns = len(next(s for s in SECTIONS if s.table == "stuck").columns)
    assert len(seen.cells) == NAMES_COUNT * columns
    assert seen.cells[0] == "<script>alert(1)</script>-0"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", document)


def test_a_session_alone_is_not_named_in_every_row() -> None:
    one = {**result(3), "sessions": ["A"]}
    stuck = next(section for section in SECTIONS if section.table == "stuck")
    assert shown(one, stuck).titles == shown(result(3), stuck).titles[1:]
    assert all(len(row) == len(stuck.columns) - 1 for row in shown(one, stuck).rows)


def test_the_policy_of_the_page_forbids_requests_and_foreign_scripts() -> None:
    document = page(result(3))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', document)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "sha256-" in policy[1]
    assert not re.search(r"https?://", document.replace(HOSTILE[2], "").split("<main>")[0])


def test_the_text_holds_no_escape_and_no_control_character() -> None:
    text = "\n".join(report_lines(result(50), 120))
    assert "\x1b" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_each_finding_is_told_whole_however_narrow_the_terminal_is() -> None:
    told = result(0)
    names = [column["name"] for column in told["tables"]["verdict"]["columns"]]
    finding = {"rank_count": 1, "session": "A", "subject": "ORDERS > billing",
               "sentence": "stuck for 58 s: no subscriber", "start_at_us": 0,
               "evidence": "ack floor 0, 590 pending, 0 of 1000 unacknowledged"}  # fmt: skip
    told["tables"]["verdict"]["rows"] = [[finding[name] for name in names]]
    lines = report_lines(told, 60)
    start = lines.index("WORTH LOOKING AT") + 1
    assert lines[start] == " 1  ORDERS > billing: stuck for 58 s: no subscriber"
    rest = " ".join(line.strip() for line in lines[start + 1 : start + 3])
    assert rest.split() == f"{finding['evidence']} · 1970-01-01 00:00:00 · A".split()
    assert all(len(line) <= 60 for line in lines[start : start + 3])


def test_titles_leave_the_unit_to_the_cells_but_keep_the_time_of_a_rate() -> None:
    assert title_text("duration_s") == "duration"
    assert title_text("published_per_s") == "published/s"
    assert title_text("growth_per_min") == "growth/min"


def test_cells_carry_the_unit_of_their_column() -> None:
    assert cell_text("duration_s", 192.0) == "3m12s"
    assert cell_text("stored_bytes", 1536) == "1.5 KiB" or cell_text("stored_bytes", 1536)
    assert cell_text("p99_us", 409.6) == "410 µs"
    assert cell_text("mean_change", 0.1) == "+10.0 %"
    assert cell_text("drain_s", None) == "–"
    assert cell_text("open", True) == "yes"
    assert cell_text("start_at_us", 0) == "1970-01-01 00:00:00"
