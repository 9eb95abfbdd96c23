"""What people type ⇄ the value in the configuration, for each kind of field.

`parsed` raises ValueError with a sentence; an empty text is None: the key is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from natstui.model.config_field import Field, objects_at
from natstui.model.exact_text import exact_bytes, exact_duration
from natstui.model.source_text import source_of, source_text
from natstui.model.subjects import is_subject
from natstui.units import parse_bytes, parse_count, parse_duration_ns

_UNLIMITED = {"-1", "unlimited", "none"}
_ON = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def parsed(field: Field, text: str) -> object:
    """Return the value that `text` means for a field, None when it is empty."""
    text = text.strip()
    return _PARSERS[field.kind](field, text) if text else None


def shown(field: Field, value: object) -> str:
    """Return the text of a value, such that `parsed` gives the value back."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.kind in ("count", "bytes", "duration") and isinstance(value, int):
        return _number_text(field, value)
    if field.kind == "durations" and isinstance(value, (list, tuple)):
        return ", ".join(exact_duration(int(item)) for item in value)
    if field.kind == "sources":
        return "; ".join(map(source_text, objects_at({"value": value}, "value")))
    if field.kind == "source" and isinstance(value, Mapping):
        return source_text(dict(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def _number_text(field: Field, value: int) -> str:
    if value < 0 or (value == 0 and field.default == 0 and field.path == "max_age"):
        return "unlimited"
    if field.kind == "duration":
        return exact_duration(value)
    return exact_bytes(value) if field.kind == "bytes" else str(value)


def _text(_field: Field, text: str) -> object:
    return text


def _subject(field: Field, text: str) -> object:
    if not is_subject(text):
        raise ValueError(f"{field.label}: {text!r} is not a valid subject")
    return text


def _words(field: Field, text: str) -> object:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    wrong = next((w for w in words if field.kind == "subjects" and not is_subject(w)), None)
    if wrong is not None:
        raise ValueError(f"{field.label}: {wrong!r} is not a valid subject")
    return words


def _choice(field: Field, text: str) -> object:
    if text not in field.choices:
        raise ValueError(f"{field.label} is one of {', '.join(field.choices)}, not {text!r}")
    return text


def _switch(field: Field, text: str) -> object:
    if text.lower() not in _ON:
        raise ValueError(f"{field.label} is yes or no, not {text!r}")
    return _ON[text.lower()]


def _number(field: Field, text: str) -> object:
    if text.lower() in _UNLIMITED:
        return 0 if field.default == 0 else -1
    parse: Callable[[str], int] = {
        "count": parse_count,
        "bytes": parse_bytes,
        "duration": parse_duration_ns,
    }[field.kind]
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _durations(field: Field, text: str) -> object:
    return [_number_of(field, part) for part in re.split(r"[,\s]+", text) if part]


def _number_of(field: Field, text: str) -> int:
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _time(field: Field, text: str) -> object:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{field.label}: {text!r} is not a time: write it as 2026-01-31T12:00:00Z"
        ) from None
    if "T" in text and moment.tzinfo is not None:
        return text  # kept letter by letter: the server compares nanoseconds
    return moment.astimezone().isoformat()


def _metadata(field: Field, text: str) -> object:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    wrong = next((key for key, sign, _ in pairs if not sign or not key.strip()), None)
    if wrong is not None:
        raise ValueError(f"{field.label}: write {wrong.strip()!r} as key=value")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _source(field: Field, text: str) -> object:
    try:
        return source_of(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _sources(field: Field, text: str) -> object:
    return [_source(field, part) for part in text.split(";") if part.strip()]


_PARSERS: dict[str, Callable[[Field, str], object]] = {
    "text": _text,
    "subject": _subject,
    "subjects": _words,
    "words": _words,
    "choice": _choice,
    "switch": _switch,
    "count": _number,
    "bytes": _number,
    "duration": _number,
    "durations": _durations,
    "time": _time,
    "metadata": _metadata,
    "source": _source,
    "sources": _sources,
}
