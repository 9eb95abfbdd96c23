"""The page in a real browser. Only where there is one: Debian's chromium, and poppler-utils."""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path

from natstui.analysis.report.page import page
from natstui.analysis.report.sections import rows_of, sections
from tests.analysis.drawn import result

BROWSER = "chromium"


def chromium(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *arguments]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)


def test_a_browser_has_nothing_to_complain_about(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(result()), encoding="utf-8")
    said = chromium("--enable-logging=stderr", "--dump-dom", file.as_uri())
    assert "CONSOLE" not in said.stderr
    # The script has run: the buttons to zoom are shown.
    assert '<div class="tools"><button' in said.stdout


def test_nothing_is_wider_than_a_telephone(tmp_path: Path) -> None:
    inside = html.escape(page(result(lasted_s=40)), quote=True)
    script = (
        "onload = () => { const page = document.querySelector('iframe').contentDocument;"
        "document.body.textContent = `wide ${page.documentElement.scrollWidth} of 375`; }"
    )
    file = tmp_path / "frame.html"
    file.write_text(
        f'<body><iframe width="375" height="800" frameborder="0" srcdoc="{inside}"></iframe>'
        f"<script>{script}</script></body>",
        encoding="utf-8",
    )
    said = chromium("--dump-dom", file.as_uri()).stdout
    wide = re.search(r"wide (\d+) of 375", said)
    assert wide is not None and int(wide[1]) <= 375


def test_on_paper_every_finding_and_column_is_there(tmp_path: Path) -> None:
    found = result(lasted_s=40)
    for table in found["tables"].values():
        # Rows beyond a page are printed as those before; 24 of each are as good as 200.
        table["rows"] = table["rows"][:24] if len(table["rows"]) < 1000 else table["rows"]
    file, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    file.write_text(page(found), encoding="utf-8")
    chromium(f"--print-to-pdf={paper}", file.as_uri())
    words = ["pdftotext", "-layout", str(paper), "-"]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    printed = re.sub(r"\s+", "", printed)
    for row in rows_of(found, "verdict"):
        assert re.sub(r"\s+", "", row["subject"]) in printed
    for one in sections(found):
        if one.rows and one.table != "verdict":
            assert re.sub(r"\s+", "", one.section.title) in printed
