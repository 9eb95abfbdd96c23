"""README and docs: links lead somewhere, commands exist, generated pages are as their source."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from natstui.cli.root import root
from tests.architecture.source import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
README_MOST_BYTES = 6_000
_LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as repository browsers make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", it.lower()).replace(" ", "-") for it in headings}


def _commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each command line of natstui in a block of a page."""
    for page in PAGES:
        for block in re.findall(
            r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S
        ):
            for line in block.replace("$ natstui ", "natstui ").splitlines():
                if line.startswith("natstui ") and page.name != "command-line.md":
                    yield f"{page.name}: {line}", shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page.name} links to {link}"
        assert not anchor or anchor in _anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize(
    ("where", "arguments"), [pytest.param(*it, id=it[0]) for it in _commands()]
)
def test_every_command_of_the_docs_can_be_given(where: str, arguments: list[str]) -> None:
    command: click.Command = root
    context = click.Context(root, info_name="natstui")
    while isinstance(command, click.Group):
        if not arguments or arguments[0].startswith("-"):
            break
        found = command.get_command(context, arguments[0])
        if found is None:
            break
        command, arguments = found, arguments[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    # Options and arguments are read, nothing is done.
    command.make_context(command.name, list(arguments), parent=context.parent)


def test_there_are_commands_to_look_at() -> None:
    assert len(list(_commands())) > 20


@pytest.mark.slow
def test_generated_pages_are_as_their_source() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "docs.py"))["pages"]()
    for name, text in made.items():
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert page == text, f"run python .ci/docs.py: docs/{name} is not as its source"
    manuals = {f"man/{path.name}" for path in (ROOT / "docs" / "man").iterdir()}
    assert manuals == {name for name in made if name.startswith("man/")}
    assert "man/natstui-stream-add.1" in manuals


@pytest.mark.slow
@pytest.mark.long
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns(".*"))
    shutil.copy(ROOT / "config.example.toml", tmp_path)
    words = ("build", "--strict", "-f", "docs/zensical.toml")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", *words],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "docs" / ".site" / "findings" / "index.html").read_text(encoding="utf-8")
    assert "NT-C07" in page and "fonts.googleapis" not in page


def test_every_page_is_in_the_list_of_pages() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    named = {link.partition("#")[0] for link in _LINK.findall(index)}
    assert named == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}


def test_the_front_page_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_MOST_BYTES
