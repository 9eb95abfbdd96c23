"""The private attributes of an object are assigned where its class is written, or a subclass."""

from __future__ import annotations

import ast

from tests.architecture.source import modules


def test_a_private_attribute_is_assigned_through_self_alone() -> None:
    found = {
        f"{module.name}: {ast.unparse(node)}"
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    # What a screen ends with is read from there by Textual, which has no public way to set it.
    assert found == {"natstui.tui.app.terminal_driver: self._app._exception"}
