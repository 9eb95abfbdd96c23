"""The map of the code names files that exist."""

from __future__ import annotations

import re

from tests.architecture.source import PACKAGE, ROOT

MAP = (PACKAGE / "README.md").read_text(encoding="utf-8")
PATH = re.compile(r"`((?:\.\./)?[\w./-]*(?:/|\.py|\.md|\.toml))`")


def test_every_path_of_the_map_exists() -> None:
    named = set(PATH.findall(MAP))
    named |= set(re.findall(r"(tests/[\w/]+\.py)", MAP))
    places = (PACKAGE, ROOT)
    missing = [path for path in named if not any((place / path).exists() for place in places)]
    assert len(named) > 50
    assert missing == []


def test_the_readme_leads_to_the_map() -> None:
    assert "(natstui/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_room_is_on_the_map() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert {room for room in rooms if f"`{room}/`" not in MAP} == set()
