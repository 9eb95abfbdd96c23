"""How text looks is said in one module: elsewhere it has a look's name, or style sheets."""

from __future__ import annotations

import ast
import re

from natstui.tui.kit.styles import STYLES
from tests.architecture.source import Module, modules

LOOKS = "natstui.tui.kit.styles"
STYLE = re.compile(
    r"^(bold |italic |dim )*(\$[a-z][a-z0-9-]+( \d+%)?|bold|italic|underline)( on \S+( \d+%)?)?$"
)


def _texts(module: Module) -> set[str]:
    """Return the strings of a module that are neither documentation nor style sheets."""
    sheets = {
        id(node.value)
        for node in module.nodes()
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("DEFAULT_CSS", "CSS")
    }
    return {
        node.value
        for node in module.nodes()
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in sheets
    }


def test_styles_are_written_in_one_module() -> None:
    assert all(STYLE.match(style) for style in STYLES.values() if style)
    for module in modules():
        if module.name.startswith("natstui.tui") and module.name != LOOKS:
            found = {text for text in _texts(module) if STYLE.match(text)}
            assert found == set(), module.name
