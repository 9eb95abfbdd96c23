"""The page and the text: hostile names stay text, and nothing is fetched from anywhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec import to_builtins

from natstui.analysis.gold.build import GOLD_TABLES
from natstui.analysis.gold.picture import MAX_CHARTED_CONSUMERS, MAX_POINTS_COUNT, PICTURE
from natstui.analysis.report.axis import Axis
from natstui.analysis.report.heading import facts_section, session_facts
from natstui.analysis.report.page import MAX_CHARTED_SESSIONS, page
from natstui.analysis.report.sections import cell_text, section_text, sections, titles_of
from natstui.analysis.report.timeline import MAX_EVENTS_COUNT, render_timeline
from natstui.cli.sessions.analyze import report_lines
from natstui.units import column_title_text
from tests.analysis import drawn

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
NAMES_COUNT = 1_000
SECTIONS = {
    gold_table.table.name: gold_table.section for gold_table in GOLD_TABLES if gold_table.section
}
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "h4", "input",
    "main", "section", "p", "div", "table", "thead", "tbody", "tr", "th", "td", "script", "svg",
    "path", "text", "line", "circle", "figure", "figcaption", "ol", "ul", "li", "span", "b", "i",
    "button", "code",
}  # fmt: skip


def bucket(number: int) -> dict[str, Any]:
    """What is drawn of everything in one second."""
    return {"session": "B", "rank": 0, "bucket_at_us": number * 60_000_000, "width_s": 60,
            "published_per_s": 1234.0 + number, "pending_msgs": 3.0}  # fmt: skip


def result(names_count: int) -> dict[str, Any]:
    """A result in which every text is hostile."""
    tables: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        columns = [
            {"name": n, "type": "string", "unit": "", "meaning": ""} for n in section.columns
        ]
        tables[name] = {
            "meaning": "",
            "section": to_builtins(section),
            "columns": columns,
            "rows": [],
            "cut": False,
        }
    stuck = tables["stuck"]
    for number in range(names_count):
        name = f"{HOSTILE[number % len(HOSTILE)]}-{number}"
        stuck["rows"].append([name for _ in stuck["columns"]])
    drawn_names = [column.name for column in PICTURE.columns]
    rows = [
        [HOSTILE[0] if name == "session" else bucket(at).get(name) for name in drawn_names]
        for at in range(5)
    ]
    tables["picture"] = {
        "meaning": "",
        "section": None,
        "columns": [{"name": n, "type": "", "unit": "", "meaning": ""} for n in drawn_names],
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


@pytest.mark.slow
def test_a_thousand_hostile_names_are_text_and_nothing_else() -> None:
    document = page(result(NAMES_COUNT))
    seen = Seen()
    seen.feed(document)
    assert set(seen.tags) <= ALLOWED
    assert (seen.tags["script"], seen.tags["style"]) == (1, 1)
    assert not {name for name in seen.attributes if name.startswith("on")}
    assert not {"src", "href", "action", "style", "srcdoc"} & seen.attributes
    columns = len(SECTIONS["stuck"].columns)
    assert len(seen.cells) == NAMES_COUNT * columns
    assert seen.cells[0] == "<script>alert(1)</script>-0"
    assert_harmless(document)


def assert_harmless(document: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", document)


@pytest.mark.slow
def test_hostile_names_are_harmless_in_every_chart_and_finding() -> None:
    document = page(drawn.result(sessions=(HOSTILE[0], HOSTILE[2]), names=HOSTILE, lasted_s=40))
    seen = Seen()
    seen.feed(document)
    assert set(seen.tags) <= ALLOWED
    assert (seen.tags["script"], seen.tags["style"]) == (1, 1)
    assert not {name for name in seen.attributes if name.startswith("on")}
    assert not {"src", "href", "action", "style", "srcdoc"} & seen.attributes
    assert seen.tags["svg"] > 50
    assert_harmless(document)


def test_a_session_alone_is_not_named_in_every_row() -> None:
    one = {**result(3), "sessions": ["A"]}
    assert section_text(one, "stuck").titles == section_text(result(3), "stuck").titles[1:]
    assert all(
        len(row) == len(SECTIONS["stuck"].columns) - 1 for row in section_text(one, "stuck").rows
    )


def test_the_policy_of_the_page_forbids_requests_and_foreign_scripts() -> None:
    document = page(result(3))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', document)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "sha256-" in policy[1]
    assert not re.search(r"https?://", document.replace(HOSTILE[2], "").split("<main>")[0])


def test_the_text_holds_no_escape_and_no_control_character() -> None:
    piped, shown = ("\n".join(report_lines(result(50), width)) for width in (None, 120))
    assert "\x1b" not in piped
    # Of a terminal's, titles are bold.
    text = shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_each_finding_is_told_whole_however_narrow_the_terminal_is() -> None:
    told = result(0)
    names = [column["name"] for column in told["tables"]["verdict"]["columns"]]
    finding = {"rank": 1, "harm": "stuck", "code": "NT-C08", "session": "A",
               "subject": "ORDERS > billing", "advice": "Start the client.",
               "sentence": "stuck for 58 s: no subscriber", "start_at_us": 0,
               "evidence": "ack floor 0, 590 pending, 0 of 1000 unacknowledged"}  # fmt: skip
    told["tables"]["verdict"]["rows"] = [[finding[name] for name in names]]
    lines = report_lines(told, 60)
    start = lines.index("NEEDS ATTENTION") + 1
    head = " ".join(line.strip() for line in lines[start : start + 2])
    assert head == "1  [stuck NT-C08] ORDERS > billing: stuck for 58 s: no subscriber"
    rest = " ".join(line.strip() for line in lines[start + 2 : start + 5])
    told_last = f"{finding['evidence']} · 1970-01-01 00:00:00 · A → Start the client."
    assert rest.split() == told_last.split()
    assert all(len(line) <= 60 for line in lines[start : start + 5])


def test_titles_leave_the_unit_to_the_cells_but_keep_the_time_of_a_rate() -> None:
    assert column_title_text("duration_s") == "duration"
    assert column_title_text("published_per_s") == "published/s"
    assert column_title_text("growth_per_min") == "growth/min"


def test_cells_carry_the_unit_of_their_column() -> None:
    assert cell_text("duration_s", 192.0) == "3m12s"
    assert cell_text("stored_bytes", 1536) == "1.50 KiB"
    assert cell_text("p99_us", 409.6) == "410 µs"
    assert cell_text("mean_change", 0.1) == "+10.0 %"
    assert cell_text("drain_s", None) == "–"
    assert cell_text("open", True) == "yes"
    assert cell_text("start_at_us", 0) == "1970-01-01 00:00:00"


def test_no_two_columns_of_a_section_have_the_same_head() -> None:
    for section in SECTIONS.values():
        titles = titles_of(section.columns)
        assert len(set(titles)) == len(titles), section.title
    assert titles_of(("stored_msgs", "stored_bytes", "discard")) == (
        "stored msgs", "stored bytes", "discard",
    )  # fmt: skip


def test_a_recording_shorter_than_one_bucket_shows_its_values_and_no_empty_picture() -> None:
    told = result(0)
    names = [column["name"] for column in told["tables"]["picture"]["columns"]]
    told["tables"]["picture"]["rows"] = [[bucket(1).get(name) for name in names]]
    lines = report_lines(told, 100)
    after = lines[lines.index("LOAD OF B") + 1]
    assert after.startswith("1970-01-01 00:01:00: published/s 1235")
    later = {**bucket(2), "delivered_per_s": 7.0}
    told["tables"]["picture"]["rows"].append([later.get(name) for name in names])
    assert any("delivered/s" in line for line in report_lines(told, 100))


def test_a_report_begins_with_verdict_and_findings_and_leaves_out_what_was_not_there() -> None:
    found = [one.table for one in sections(result(1))]
    assert found[:2] == ["verdict", "finding_groups"]
    assert found == [name for name, section in SECTIONS.items() if not section.optional]
    assert {name for name, section in SECTIONS.items() if section.optional} == {
        "ack_time_summary", "bench_throughput", "bench_latency_summary", "bench_account",
        "bench_knee", "change", "delay", "idle", "ephemeral",
    }  # fmt: skip


def test_a_report_says_what_it_is_about_and_what_is_not_in_it() -> None:
    made = drawn.result(lasted_s=3600)
    (session,) = made["sessions"]
    about = {
        "cluster": "PROD", "account": "ORDERS", "server_name": "n1", "server_version": "2.12.1",
        "natstui_version": "0.1.0", "interval_s": 1.0, "payloads": False,
        "dropped": {"until_at_us": drawn.START_US, "reason": "the disk <b>was</b> full"},
    }  # fmt: skip
    made["headers"] = {session: about}
    names = [column["name"] for column in made["tables"]["session"]["columns"]]
    row = made["tables"]["session"]["rows"][0]
    row[names.index("gaps_count")], row[names.index("not_judged")] = 0, None
    made["tables"]["availability"]["rows"] = []
    facts = dict(session_facts(made, session))
    assert (facts["System"], facts["Connected to"]) == ("PROD, account ORDERS", "n1, 2.12.1")
    assert facts["Recorded"].endswith("(1h00m), a poll every 1 s, by natstui 0.1.0")
    assert facts["Gaps"] == "none"
    assert facts["Not recorded"].startswith(
        "payloads of messages, because recording them was not requested"
    )
    assert "the clients of consumers, except the ID of a pinned client" in facts["Not recorded"]
    assert "deleted: the disk <b>was</b> full" in facts["Not recorded"]
    document = page(made)
    assert "deleted: the disk &lt;b&gt;was&lt;/b&gt; full" in document
    assert document.index("PROD, account ORDERS") < document.index("Timeline of")
    lines = report_lines(made, 120)
    assert lines[lines.index(f"ABOUT {session}") + 2] == "Connected to: n1, 2.12.1"


def test_what_is_drawn_of_cut_tables_says_so_and_the_length_of_gaps_is_not_of_them() -> None:
    made = drawn.result(lasted_s=3600)
    (session,) = made["sessions"]
    tables = made["tables"]
    names = [column["name"] for column in tables["session"]["columns"]]
    row = tables["session"]["rows"][0]
    row[names.index("gaps_count")], row[names.index("gaps_s")] = 2, 1200.0
    facts = dict(session_facts(made, session))
    assert facts["Gaps"] == "2 gaps, 20m00s in all"
    assert "only the first rows of the table availability were read" in facts["Not recorded"]
    axis = Axis(drawn.START_US, drawn.START_US + 3_600_000_000)
    assert "not complete" in render_timeline(made, session, axis)
    for name in ("findings", "stuck", "lag_period", "availability", "poison", "bench_steady",
                 "note"):  # fmt: skip
        tables[name]["rows"] = []
    tables["picture"]["rows"] = []
    # Nothing was read of what may have happened.
    assert render_timeline(made, session, axis).startswith("<p>This timeline is not complete")
    for table in tables.values():
        table["cut"] = False
    assert render_timeline(made, session, axis) == ""
    assert "only the first rows" not in dict(session_facts(made, session))["Not recorded"]


def test_a_result_has_every_point_of_the_charts_of_a_page() -> None:
    (limit,) = {one.min_rows_count for one in GOLD_TABLES if one.table is PICTURE}
    for count in range(1, MAX_CHARTED_SESSIONS + 1):
        lines_count = count * (1 + MAX_CHARTED_CONSUMERS // count)
        assert lines_count * (MAX_POINTS_COUNT + 2) <= limit, count


def test_a_hostile_header_is_text_and_nothing_else() -> None:
    made = drawn.result(sessions=(HOSTILE[0],), lasted_s=40)
    names = ("cluster", "target", "account", "server_name", "server_version", "natstui_version",
             "interval_s", "payloads", "redacted")  # fmt: skip
    for value in (*HOSTILE, 1e308, -1, True, [1], {"a": None}):
        about = dict.fromkeys(names, value)
        made["headers"] = {HOSTILE[0]: {**about, "dropped": {"until_at_us": value}}}
        document = facts_section(made, made["sessions"])
        seen = Seen()
        seen.feed(document)
        assert set(seen.tags) <= ALLOWED
        assert_harmless(document)
        told = "".join(words for _, words in session_facts(made, HOSTILE[0]))
        assert told and not re.search(r"[\x00-\x1f\x7f-\x9f]", told)


def test_events_are_told_in_the_order_of_time() -> None:
    document = page(drawn.result(lasted_s=3600))
    part = document.split('aria-label="Events in the order of time"')[1].split("</table>")[0]
    times = re.findall(r"<tr><td>([\d :-]+)<td>", part)
    assert len(times) == MAX_EVENTS_COUNT and times == sorted(times)
    assert f"These are {MAX_EVENTS_COUNT} events, the first of each kind" in document


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ({"n1": "2.12.1"}, "n1, version 2.12.1"),
        ({"n1": "2.12.1", "n2": "2.12.1"}, "n1, n2, version 2.12.1"),
        (
            {"n1": "2.11.9 → 2.12.1", "n2": "2.11.9"},
            "n1 2.11.9 → 2.12.1, n2 2.11.9: their versions differ",
        ),
        ({"n1": "2.12.1", "n2": None}, "n1 2.12.1, n2 (version unknown)"),
        ({"n1": None}, None),
    ],
)
def test_a_report_names_every_server_with_its_version(
    versions: dict[str, str | None], told: str | None
) -> None:
    made = result(0)
    made["sessions"], columns = ["A"], made["tables"]["server_role"]["columns"]
    made["tables"]["server_role"]["rows"] = [
        [{"session": "A", "server": server, "versions": version}.get(column["name"])
         for column in columns]
        for server, version in versions.items()
    ]  # fmt: skip
    facts = dict(session_facts(made, "A"))
    assert facts.get("Servers") == told
    missing = "the servers and their versions" in facts.get("Not recorded", "")
    assert missing == (told is None)


def test_a_day_below_a_chart_has_its_year_where_the_session_has_two() -> None:
    new_year_us = 1_798_761_600_000_000
    day_us = 86_400_000_000
    assert ">01-01<" in Axis(new_year_us, new_year_us + 2 * day_us).ticks()
    assert ">2027-01-01<" in Axis(new_year_us - day_us, new_year_us + 2 * day_us).ticks()
