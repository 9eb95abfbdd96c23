"""The user's own stream templates: a TOML file each, in the configuration folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from natstui.asset_file import read_asset_file
from natstui.errors import UsageError
from natstui.files import translate_write_errors, write_atomic_file
from natstui.model.assets.templates import BUILT_IN_TEMPLATES, Template
from natstui.paths import create_private_folder


def template_folder() -> Path:
    """Return the folder of the user's own templates: `templates` in the configuration folder."""
    return platformdirs.user_config_path("natstui") / "templates"


def load_templates(folder: Path | None = None) -> tuple[Template, ...]:
    """Return the user's own templates, then the built-in ones of other names.

    A file `NAME.toml` has the configuration with the server's keys, and optionally `help`. Raises
    UsageError for a file that cannot be read or is not valid.
    """
    own_templates = []
    for file in sorted((folder or template_folder()).glob("*.toml")):
        config = read_asset_file(str(file), "stream")
        own_templates.append(Template(file.stem, str(config.pop("help", "your own")), config))
    names = {template.name for template in own_templates}
    return (
        *own_templates,
        *(template for template in BUILT_IN_TEMPLATES if template.name not in names),
    )


def save_template(name: str, config: Mapping[str, object], folder: Path | None = None) -> Path:
    """Write a template of the user and return its file.

    Raises UsageError for an invalid name or an existing template, and UsageError or WriteFailed
    if the file cannot be written.
    """
    file = (folder or template_folder()) / f"{name}.toml"
    if not name or "/" in name or name.startswith("."):
        raise UsageError(f"{name!r} cannot name a template")
    if file.exists():
        raise UsageError(f"there is a template {name} already: use another name, or remove {file}")
    lines = [f"{key} = {_toml_value(value)}\n" for key, value in config.items() if key != "name"]
    with translate_write_errors(file):
        create_private_folder(file.parent)
        write_atomic_file(file, "".join(lines).encode())
    return file


def _toml_value(value: object) -> str:
    """Return a value as TOML on one line.

    A JSON string is a TOML string, but TOML has no surrogate pairs, and DEL must be escaped.
    """
    if isinstance(value, Mapping):
        pairs = (f"{_toml_value(key)} = {_toml_value(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
