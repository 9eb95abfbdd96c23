from __future__ import annotations

from pathlib import Path

from natstui.config.template_files import save_template, templates


def test_what_is_kept_as_a_template_comes_back_as_it_was(tmp_path: Path) -> None:
    config = {
        "description": 'quoted ", broken \n, 🚀, ünï, \x7f',
        "subjects": ["a.>", "b"],
        "metadata": {"key of 🚀": "value"},
        "max_age": 5,
        "allow_direct": True,
    }
    save_template("mine", {"name": "S", **config}, tmp_path)
    (mine,) = [one for one in templates(tmp_path) if one.name == "mine"]
    assert mine.config == config
