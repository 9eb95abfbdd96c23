"""The page as people see it: small, readable in both schemes, on a telephone and on paper."""

from __future__ import annotations

import ast
import html
import json
import re
from functools import cache
from pathlib import Path

import pytest

from natstui.analysis.gold.build import TABLES
from natstui.analysis.gold.shared.harm import ADVICE_BY_KIND_AND_CAUSE, MEANING_BY_HARM
from natstui.analysis.report import page as home
from natstui.analysis.report.notebook import notebook_text
from natstui.analysis.report.page import page
from natstui.analysis.report.sections import rows_of
from natstui.model.findings.catalogue.every import KINDS
from tests.analysis.drawn import result

MOST_BYTES = 1_000_000
LEAST_CONTRAST = 4.5


@cache
def page_of_an_hour() -> str:
    """The page of an hour of 200 consumers."""
    return page(result())


def colours(style: str) -> list[dict[str, str]]:
    """The colours of each scheme: light, dark and paper."""
    return [
        dict(re.findall(r"--(\w+): (#\w+)", block))
        for block in re.findall(r":root \{([^}]*)\}", style)
    ]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_text_can_be_read_in_both_schemes_and_on_paper() -> None:
    style = Path(home.__file__).with_name("page.css").read_text(encoding="utf-8")
    schemes = colours(style)
    assert len(schemes) == 3
    for scheme in schemes:
        for name in ("ink", "faint", "a", "b", "c", "bad"):
            found = contrast(scheme[name], scheme["back"])
            assert found >= LEAST_CONTRAST, f"{name} on back: {found:.2f}"
        for name in ("bad", "warm", "faint"):
            found = contrast(scheme["badge"], scheme[name])
            assert found >= LEAST_CONTRAST, f"badge on {name}: {found:.2f}"


def test_an_hour_of_200_consumers_is_less_than_a_megabyte() -> None:
    assert len(page_of_an_hour().encode()) < MOST_BYTES


@pytest.mark.slow
def test_a_page_opens_with_what_was_found_and_what_to_do() -> None:
    found, document = result(), page_of_an_hour()
    assert document.index("Needs attention") < document.index("Timeline of")
    for row in rows_of(found, "verdict"):
        for name in ("subject", "sentence", "advice"):
            words = html.escape(row[name], quote=True)
            assert re.sub("`([^`]*)`", r"<code>\1</code>", words) in document
    assert "All times are UTC" in document


@pytest.mark.slow
def test_a_session_of_forty_seconds_is_drawn_by_the_second() -> None:
    document = page(result(lasted_s=40))
    rates = re.search(
        r'aria-label="Messages per second.*?class="line line0" d="([^"]*)"', document
    )
    assert rates is not None
    assert rates[1].count("L") > 30


def test_charts_of_a_session_have_one_axis_that_names_its_zone() -> None:
    (drawn,) = re.findall(r'<section class="time".*?</section>', page_of_an_hour(), re.S)
    ticks = set(re.findall(r'<div class="ticks">.*?</div>', drawn))
    assert len(ticks) == 1
    assert re.search(r"to 2026-09-21 15:13:20 UTC", drawn)


def test_every_chart_tells_a_reader_what_it_shows_and_takes_keys() -> None:
    for attributes in re.findall(r'<div class="chart [^>]*>', page_of_an_hour()):
        assert 'role="img"' in attributes and 'tabindex="0"' in attributes
        assert len(re.findall(r'aria-label="([^"]*)"', attributes)[0]) > 20


def test_a_notebook_has_the_shape_of_nbformat_and_asks_for_tables_and_columns_that_exist() -> None:
    made = json.loads(notebook_text({"out": '/a "b"\\c', "sessions": ["<script>A", "B"]}))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert {"cells", "metadata", "nbformat", "nbformat_minor"} == made.keys()
    cells = made["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells) > 8
    assert "<script>" not in json.dumps([c for c in cells if c["cell_type"] == "markdown"])
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for cell in code:
        assert cell.keys() == {"cell_type", "id", "metadata", "source", "execution_count",
                               "outputs"}  # fmt: skip
    tree = ast.parse("\n".join("".join(cell["source"]) for cell in code))
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert '/a "b"\\c/gold' in texts
    asked = {text for text in texts if re.fullmatch(r"[a-z]+(_[a-z]+)+", text)}
    columns = {column.name for table in TABLES for column in table.columns}
    assert asked and asked <= columns
    loaded = [
        ast.literal_eval(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "gold"
    ]
    assert set(loaded) == {"verdict", "picture", "stuck", "comparison"}
    assert set(loaded) <= {table.name for table in TABLES}


def test_each_advice_has_a_known_harm_and_code() -> None:
    for one in ADVICE_BY_KIND_AND_CAUSE.values():
        assert one.harm in MEANING_BY_HARM
        assert not one.code or one.code in KINDS
        assert one.advice.endswith(".") and one.advice[0].isupper()
