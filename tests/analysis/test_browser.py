"""The page in a real browser. Only where there is one: Debian's chromium, and poppler-utils."""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path

import pytest

from natstui.analysis.report.page import page
from natstui.analysis.report.sections import rows_of, sections
from tests.analysis.drawn import result

BROWSER = "chromium"
pytestmark = [pytest.mark.slow, pytest.mark.needs_program(BROWSER, "pdftotext")]


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


_CONTRAST = """
const frame = document.querySelector('iframe'), page = frame.contentDocument;
const parts = (color) => color.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (one) => {
  for (; one; one = one.parentElement) {
    const found = parts(frame.contentWindow.getComputedStyle(one).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
let worst = [99, ''], count = 0;
const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const one = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || /style|script|title/i.test(one.tagName)) continue;
  const style = frame.contentWindow.getComputedStyle(one);
  const ink = one instanceof frame.contentWindow.SVGElement ? style.fill : style.color;
  const pair = [light(parts(ink)), light(behind(one))].sort((a, b) => b - a);
  const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
  count += 1;
  if (ratio < worst[0]) worst = [ratio, one.outerHTML.slice(0, 80)];
}
const fetched = frame.contentWindow.performance.getEntriesByType('resource').length;
const dark = frame.contentWindow.matchMedia('(prefers-color-scheme: dark)').matches;
document.body.textContent =
  `dark ${dark}; ${count} texts; fetched ${fetched}; contrast ${worst[0]} of ${worst[1]}`;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it_and_nothing_is_fetched(
    tmp_path: Path, scheme: str
) -> None:
    inside = html.escape(page(result(lasted_s=40)), quote=True)
    file = tmp_path / "frame.html"
    file.write_text(
        f'<body><iframe width="1280" height="900" srcdoc="{inside}"></iframe>'
        f"<script>onload = () => {{ {_CONTRAST} }}</script></body>",
        encoding="utf-8",
    )
    # Chromium's own number for each scheme.
    setting = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
    said = chromium(setting, "--dump-dom", file.as_uri()).stdout
    told = re.search(r"dark (\w+); (\d+) texts; fetched (\d+); contrast ([\d.]+) of (.*)", said)
    assert told is not None, said[-300:]
    assert told[1] == ("true" if scheme == "dark" else "false")
    assert int(told[2]) > 1000
    assert int(told[3]) == 0
    assert float(told[4]) >= 4.5, told[5]


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
    for leaf in printed.split("\f"):
        # The last line is the browser's own: where the page lies, and its number.
        ends = [line.strip() for line in leaf.splitlines() if line.strip()][:-1][-1:]
        assert ends not in [[one.section.title] for one in sections(found)]
    printed = re.sub(r"\s+", "", printed)
    for row in rows_of(found, "verdict"):
        assert re.sub(r"\s+", "", row["subject"]) in printed
    for one in sections(found):
        if one.rows and one.table != "verdict":
            assert re.sub(r"\s+", "", one.section.title) in printed
            for word in " ".join(one.titles).split():
                assert word in printed
