from __future__ import annotations

import re
import tomllib
from pathlib import Path

from natstui.config.example import example_text, read_meanings
from natstui.config.load import load
from natstui.config.settings import NAMED_TABLES, Alert, DefaultConnection, Profile, Settings

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def uncommented(text: str) -> str:
    """Return the example with every setting that is shown behind a `# ` switched on."""
    return re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE)


def test_the_example_is_what_the_settings_say() -> None:
    assert EXAMPLE.read_text() == example_text(), "run: natstui config --example"


def test_the_example_changes_nothing() -> None:
    loaded = load(EXAMPLE)
    assert loaded.settings.model_dump() == Settings().model_dump()


def test_the_example_shows_every_setting_and_each_can_be_switched_on(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(uncommented(EXAMPLE.read_text()))
    load(file)
    shown = tomllib.loads(file.read_text())
    assert set(shown) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        if name not in NAMED_TABLES:
            assert set(shown[name]) == set(getattr(field.annotation, "model_fields", ()))
    assert set(shown["alerts"]["orders"]) == set(Alert.model_fields)
    profile_only = set(Profile.model_fields) - set(DefaultConnection.model_fields)
    assert profile_only <= set(shown["profiles"]["staging"])


def test_every_setting_says_what_it_means() -> None:
    parts = [field.annotation for field in Settings.model_fields.values()]
    models = [part for part in parts if hasattr(part, "model_fields")] + [Profile, Alert]
    silent = [
        f"{model.__name__}.{name}"
        for model in models
        for meanings in [read_meanings(model)]
        for name in model.model_fields
        if not meanings.get(name)
    ]
    assert silent == []
