"""Reading settings: config.toml < environment NATSTUI_* < flags, each value with its origin."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

from msgspec import Struct
from platformdirs import user_config_path
from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
)

from natstui.clean import clean_line
from natstui.config.settings import NAMED_TABLES, Settings
from natstui.errors import UsageError
from natstui.files import MAX_TEXT_BYTES, read_user_file
from natstui.parsing import parse_json, parse_toml
from natstui.paths import expand_user_path

FILE_VARIABLE = "NATSTUI_CONFIG"


class LoadedSettings(Struct, frozen=True):
    """Settings, and the origin of each value that is not a default."""

    settings: Settings
    file: Path
    """The file that was read, or would be if it existed."""
    origins: dict[str, str]
    """`monitor.interval_s` → "/path/config.toml", "NATSTUI_MONITOR_INTERVAL_S" or "flag"."""


class _LayeredSettings(Settings):
    """Settings from the mappings in `layers`; the first mapping that has a value counts."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return a pydantic source for each mapping in `layers`; the others are not used."""
        assert isinstance(init_settings, InitSettingsSource)
        layers = init_settings.init_kwargs["layers"]
        return tuple(InitSettingsSource(cls, dict(layer)) for layer in layers)


def default_file() -> Path:
    """Return the default settings file: `config.toml` in the platform's configuration folder."""
    return user_config_path("natstui") / "config.toml"


def load(file: Path | None = None, flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """Return the settings; `flags` are nested like the file and override it.

    A file that is named must exist; the default file need not. Raises UsageError for a
    file that cannot be read, and for an invalid or unknown setting; it names the file or
    variable, the key, and the nearest valid name.
    """
    config_path = str(file) if file else os.environ.get(FILE_VARIABLE)
    _refuse_unknown_variables()
    _check_json_variables()
    path = expand_user_path(config_path) if config_path else default_file()
    values = _read_settings_file(path, must_exist=bool(config_path))
    environment_values = EnvSettingsSource(Settings)()
    layers: dict[str, Any] = {"layers": (flags or {}, environment_values, values)}
    try:
        settings = _LayeredSettings(**layers)
    except ValidationError as error:
        raise UsageError(_validation_error_text(error, path, values)) from error
    origins = {key: str(path) for key, _ in _iterate_settings(values)}
    origins.update({key: variable_name(key) for key, _ in _iterate_settings(environment_values)})
    origins.update({key: "flag" for key, _ in _iterate_settings(flags or {})})
    return LoadedSettings(settings, path, origins)


def variable_name(key: str) -> str:
    """Return the environment variable of a setting, as `NATSTUI_MONITOR_INTERVAL_S`."""
    return "NATSTUI_" + "_".join(key.split(".")[:2]).upper()


def _refuse_unknown_variables() -> None:
    """Raise UsageError for a NATSTUI_* variable that is no setting, because it may be a typing
    error.
    """
    known_variables = {FILE_VARIABLE}
    for part, field in Settings.model_fields.items():
        known_variables.add(variable_name(part))
        known_variables.update(
            variable_name(f"{part}.{key}") for key in getattr(field.annotation, "model_fields", ())
        )
    for environment_name in os.environ:
        # Their case does not matter where they are read.
        name = environment_name.upper()
        if name.startswith("NATSTUI_") and name not in known_variables:
            table = name.removeprefix("NATSTUI_").partition("_")[0].lower()
            if table in _REPLACEMENT_BY_REMOVED_TABLE:
                raise UsageError(
                    f"the environment variable {clean_line(name)} was removed: "
                    f"{_REPLACEMENT_BY_REMOVED_TABLE[table]}"
                )
            similar_names = difflib.get_close_matches(name, known_variables, n=1)
            hint = f"; did you mean {similar_names[0]!r}?" if similar_names else ""
            raise UsageError(f"the environment variable {clean_line(name)} is not a setting{hint}")


def _check_json_variables() -> None:
    """Raise UsageError if the variable of a table or list is not a JSON object or array."""
    text_by_variable = {name.upper(): text for name, text in os.environ.items()}
    for part, field in Settings.model_fields.items():
        fields = getattr(field.annotation, "model_fields", {})
        type_by_variable = {variable_name(part): dict} | {
            variable_name(f"{part}.{key}"): expected_type
            for key, setting in fields.items()
            if (expected_type := get_origin(setting.annotation)) in (dict, list)
        }
        for name, expected_type in type_by_variable.items():
            text = text_by_variable.get(name)
            if text is None:
                continue
            try:
                value = parse_json(text)
            except ValueError as error:
                error_text = clean_line(str(error))
                raise UsageError(f"{name} must be JSON, and is not: {error_text}") from error
            if not isinstance(value, expected_type):
                expected_text = "an object" if expected_type is dict else "a list"
                raise UsageError(f"{name} must be {expected_text} of JSON")


def _read_settings_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        return parse_toml(read_user_file(path, MAX_TEXT_BYTES).decode())
    except FileNotFoundError as error:
        if must_exist:
            raise UsageError(f"the configuration {path} does not exist") from error
        return {}
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML: {clean_line(str(error))}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _iterate_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every setting in nested tables."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _iterate_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


_REPLACEMENT_BY_REMOVED_TABLE = {"analysis": "Spark is started when an analysis is requested"}
"""Tables of older versions, and their replacement."""


def _validation_error_text(error: ValidationError, path: Path, values: Mapping[str, Any]) -> str:
    """Return a sentence about the first validation error, with the file or variable and the
    key.
    """
    first_error = error.errors(include_url=False, include_input=False)[0]
    key_path = [clean_line(str(key_part)) for key_part in first_error["loc"]]
    key = ".".join(key_path)
    location_text = f"{path}: {key}" if _has_key(values, key_path) else variable_name(key)
    if first_error["type"] != "extra_forbidden":
        return f"{location_text}: {first_error['msg'][0].lower()}{first_error['msg'][1:]}"
    if key_path[0] in _REPLACEMENT_BY_REMOVED_TABLE:
        return f"{location_text} was removed: {_REPLACEMENT_BY_REMOVED_TABLE[key_path[0]]}"
    similar_names = difflib.get_close_matches(key_path[-1], _valid_keys(key_path[:-1]), n=1)
    hint = f"; did you mean {similar_names[0]!r}?" if similar_names else ""
    return f"{location_text} is not a setting{hint}"


def _has_key(values: Mapping[str, Any], key_path: list[str]) -> bool:
    """Return whether nested tables have a value at `key_path`."""
    value: Any = values
    for key in key_path:
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _valid_keys(table_path: list[str]) -> list[str]:
    """Return the keys that a table of the settings file may have."""
    if not table_path:
        return list(Settings.model_fields)
    if table_path[0] in NAMED_TABLES:
        return list(NAMED_TABLES[table_path[0]][1].model_fields)
    part = Settings.model_fields[table_path[0]].annotation
    return list(getattr(part, "model_fields", ()))
