"""Words that must not be in any file."""

from __future__ import annotations

import ast
import re
import tomllib

from tests.architecture.source import PACKAGE, ROOT, modules, text_files

# Each is written in pieces, or this file would be the first to break its own rule.
FORBIDDEN = {
    "unfinished work": r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
    "an error swallowed whole": r"suppress\((Base)?Ex" + r"ception",
    "a test that does not run": r"pytest\.sk" + r"ip|mark\.(sk" + r"ip|xf" + r"ail)",
    "a mock": r"unittest\.mo" + r"ck|monkeypatch\.setattr\(\"nats" + r"tui",
    "a path of one machine": r"[\s\"'=(]/wo" + r"rk/",
}


def test_no_file_holds_what_does_not_belong_in_a_finished_program() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {why}: {match[0]!r}"
        for path in text_files()
        for why, pattern in FORBIDDEN.items()
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"))
    ]
    assert found == []


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler takes any error and does not pass it on."""
    caught = ast.unparse(handler.type) if handler.type else "Exception"
    last = handler.body[-1]
    passes_on = isinstance(last, ast.Raise) and last.exc is None
    return bool(re.search(r"\b(Base)?Exception\b", caught)) and not passes_on


MAY_CONTAIN = {
    # Where a defect ends one command, one record, one picture or one row, and nothing else.
    "natstui.engine.analyzing": 2,
    "natstui.engine.commands": 1,
    "natstui.engine.replay": 1,
    "natstui.session.write.recorder": 1,
    "natstui.tui.app.app": 1,
    "natstui.tui.app.live_system": 1,
    "natstui.tui.app.guarded": 1,
    "natstui.tui.frame.live": 1,
    "natstui.tui.frame.requests": 1,
    "natstui.tui.kit.table.view": 1,
}


def test_no_handler_swallows_every_error_but_the_one_that_reports_it() -> None:
    found = [
        (module.name, node)
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert [name for name, _ in found] == ["natstui.defects"]
    called = {
        call.func.id
        for call in ast.walk(found[0][1])
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    assert {"write_crash_log", "report"} <= called


def test_only_named_places_contain_what_nobody_foresaw() -> None:
    used: dict[str, int] = {}
    for module in modules():
        for node in module.nodes():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("report_defects"):
                used[module.name] = used.get(module.name, 0) + 1
    assert used == MAY_CONTAIN


def test_only_the_edge_of_the_raw_protocol_is_untyped() -> None:
    """The model, the feed and the screens name every type."""
    rooms = {*PACKAGE.glob("model/**/*.py"), PACKAGE / "feed.py", PACKAGE / "errors.py"}
    # It returns keyword arguments, each of another type.
    rooms.remove(PACKAGE / "model/columns/column.py")
    assert [path.name for path in rooms if re.search(r"\bAny\b", path.read_text())] == []


def test_public_things_have_docstrings_by_a_rule_the_linter_knows() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "D1" in lint["select"]
    assert not {"D100", "D101", "D102", "D103", "D104"} & set(lint["ignore"])
    assert "BLE" in lint["select"]


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
    assert [m.name for m in modules() if m.path.stem in drawers] == []
