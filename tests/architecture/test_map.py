"""The map of the code names files that exist."""

from __future__ import annotations

import re

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.fields import SERVER_VERSION_BY_API_LEVEL
from natstui.model.assets.stream_fields import STREAM_FIELDS
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


def test_every_option_is_beside_the_server_that_brought_it() -> None:
    needed: dict[str, set[str]] = {}
    for field in (*STREAM_FIELDS, *CONSUMER_FIELDS):
        if field.needed_api_level:
            needed.setdefault(SERVER_VERSION_BY_API_LEVEL[field.needed_api_level], set()).add(
                field.path
            )
        for _, level in field.choices_min_api_level:
            needed.setdefault(SERVER_VERSION_BY_API_LEVEL[level], set()).add(field.path)
    section = MAP[MAP.index("| from server |") : MAP.index("| servers |")]
    rows = re.findall(r"^\| (2\.\d+) \| ([^|]*) \|", section, re.MULTILINE)
    named = {server: set(re.findall(r"`(\w+)`", options)) for server, options in rows}
    assert {server: paths for server, paths in named.items() if paths} == needed


def test_every_room_is_on_the_map() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert {room for room in rooms if f"`{room}/`" not in MAP} == set()
