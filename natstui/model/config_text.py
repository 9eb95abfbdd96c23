"""What people type ⇄ the value in the configuration, for each kind of field.

`parsed` raises ValueError with a sentence; an empty text is None: the key is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from natstui.model.config_field import Config, Field, number_at, objects_at, text_at, written
from natstui.model.subjects import is_subject
from natstui.units import parse_bytes, parse_count, parse_duration_ns

_UNLIMITED = {"-1", "unlimited", "none"}
_ON = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_UNITS_NS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


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


def exact_duration(duration_ns: int) -> str:
    """Return a duration with nothing lost: `2m`, `1d3h`, `1.5s`, `250ms`, `1ns`."""
    if duration_ns <= 0:
        return "0" if duration_ns == 0 else f"-{exact_duration(-duration_ns)}"
    seconds, rest_ns = divmod(duration_ns, 1_000_000_000)
    parts = []
    for unit, size_s in _UNITS_NS:
        amount, seconds = divmod(seconds, size_s)
        parts += [f"{amount}{unit}"] if amount else []
    for unit, size_ns in (("ms", 1_000_000), ("us", 1000), ("ns", 1)):
        amount, rest_ns = divmod(rest_ns, size_ns)
        parts += [f"{amount}{unit}"] if amount else []
    return "".join(parts)


def exact_bytes(size_bytes: int) -> str:
    """Return a size with nothing lost: `256MB`, `1000`."""
    for unit in ("", "KB", "MB", "GB", "TB", "PB"):
        if size_bytes < 1024 or size_bytes % 1024:
            return f"{size_bytes}{unit}"
        size_bytes //= 1024
    return f"{size_bytes}EB"


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


_SOURCE_KEYS = {
    "seq": "opt_start_seq",
    "time": "opt_start_time",
    "filter": "filter_subject",
    "api": "external.api",
    "deliver": "external.deliver",
    "consumer": "consumer.name",
    "consumer-deliver": "consumer.deliver_subject",
}


def source_of(text: str) -> Config:
    """Return the mirror or source that `NAME seq=5 filter=a.> map=a.*:b.$1` describes."""
    name, *words = text.split()
    source: Config = {"name": name}
    maps: list[Config] = []
    for word in words:
        key, sign, value = word.partition("=")
        if key == "map" and ":" in value:
            maps.append(dict(zip(("src", "dest"), value.split(":", 1), strict=True)))
        elif sign and value and key in _SOURCE_KEYS:
            sequence = key == "seq"
            if sequence and not value.isdigit():
                raise ValueError(f"{value!r} is not a sequence: write it as seq=100")
            source = written(source, _SOURCE_KEYS[key], int(value) if sequence else value)
        else:
            known = ", ".join([*_SOURCE_KEYS, "map"])
            raise ValueError(f"{word!r} is not understood: write key=value with {known}")
    return {**source, "subject_transforms": maps} if maps else source


def source_text(source: Config) -> str:
    """Return the text that `source_of` reads back."""
    words = [text_at(source, "name")]
    for key, path in _SOURCE_KEYS.items():
        value = number_at(source, path) if key == "seq" else text_at(source, path)
        words += [f"{key}={value}"] if value else []
    for mapping in objects_at(source, "subject_transforms"):
        words.append(f"map={text_at(mapping, 'src')}:{text_at(mapping, 'dest')}")
    return " ".join(words)


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
