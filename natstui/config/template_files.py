"""The user's own stream templates: one TOML file each, beside the configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from natstui.asset_file import read_asset_file
from natstui.errors import UsageError
from natstui.files import write_complete, writing
from natstui.model.assets.templates import BUILT_IN, Template
from natstui.paths import private_folder


def template_folder() -> Path:
    """Return where own templates are: `templates` in the configuration folder."""
    return platformdirs.user_config_path("natstui") / "templates"


def templates(folder: Path | None = None) -> tuple[Template, ...]:
    """Return own templates, then those built in; an own one may replace one of these.

    A file `NAME.toml` holds the configuration with the server's keys, and perhaps `help`.
    Raises UsageError for a file that is not TOML.
    """
    own = []
    for file in sorted((folder or template_folder()).glob("*.toml")):
        config = read_asset_file(str(file), "stream")
        own.append(Template(file.stem, str(config.pop("help", "your own")), config))
    names = {template.name for template in own}
    return (*own, *(template for template in BUILT_IN if template.name not in names))


def save_template(name: str, config: Mapping[str, object], folder: Path | None = None) -> Path:
    """Write an own template and return its file; raises UsageError, also when it exists."""
    file = (folder or template_folder()) / f"{name}.toml"
    if not name or "/" in name or name.startswith("."):
        raise UsageError(f"{name!r} cannot name a template")
    if file.exists():
        raise UsageError(f"there is a template {name} already: use another name, or remove {file}")
    lines = [f"{key} = {_toml(value)}\n" for key, value in config.items() if key != "name"]
    with writing(file):
        private_folder(file.parent)
        write_complete(file, "".join(lines).encode())
    return file


def _toml(value: object) -> str:
    """Return a value as TOML writes it on one line.

    A JSON string is a TOML string, but TOML has no surrogate pairs, and DEL must be escaped.
    """
    if isinstance(value, Mapping):
        pairs = (f"{_toml(key)} = {_toml(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
