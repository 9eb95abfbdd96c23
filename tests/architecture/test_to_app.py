"""What a screen wants of the app is posted to the app."""

from __future__ import annotations

import ast

from natstui.tui.frame.messages import AppRequest
from tests.architecture.source import modules

WISHES = {kind.__name__ for kind in AppRequest.__subclasses__()}


def test_a_wish_is_posted_to_the_app_because_on_its_way_up_a_screen_may_keep_it() -> None:
    assert len(WISHES) > 7
    posted = 0
    for module in modules():
        for node in module.nodes():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr != "post_message" or not isinstance(node.args[0], ast.Call):
                continue
            if ast.unparse(node.args[0].func) in WISHES:
                poster = ast.unparse(node.func.value)
                assert poster.split(".")[-1].lstrip("_") == "app", f"{module.name}: {poster}"
                posted += 1
    assert posted > 30
