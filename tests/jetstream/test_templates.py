from __future__ import annotations

from pathlib import Path

import pytest

from natstui.config.template_files import load_templates, save_template
from natstui.errors import UsageError


def test_what_is_kept_as_a_template_comes_back_as_it_was(tmp_path: Path) -> None:
    config = {
        "description": 'quoted ", broken \n, 🚀, ünï, \x7f',
        "subjects": ["a.>", "b"],
        "metadata": {"key of 🚀": "value"},
        "max_age": 5,
        "allow_direct": True,
    }
    save_template("mine", {"name": "S", **config}, tmp_path)
    (mine,) = [one for one in load_templates(tmp_path) if one.name == "mine"]
    assert mine.config == config


def test_a_template_is_not_replaced_by_another_of_its_name(tmp_path: Path) -> None:
    save_template("mine", {"max_age": 5}, tmp_path)
    with pytest.raises(UsageError, match="there is a template mine already: use another name"):
        save_template("mine", {"max_age": 6}, tmp_path)
    (mine,) = [one for one in load_templates(tmp_path) if one.name == "mine"]
    assert mine.config == {"max_age": 5}
