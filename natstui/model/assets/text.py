"""Conversion of typed texts to values of a configuration and back, by kind of field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from natstui.model.assets.fields import (
    READ_ONLY_METADATA,
    Config,
    Field,
    number_at,
    objects_at,
    text_at,
    with_value_at,
)
from natstui.model.assets.monitor_keys import check_threshold
from natstui.model.assets.subjects import is_subject
from natstui.parsing import parse_json
from natstui.units import parse_bytes, parse_count, parse_duration_ns, parse_moment

_SOURCE_KEYS = {
    "seq": "opt_start_seq",
    "time": "opt_start_time",
    "filter": "filter_subject",
    "api": "external.api",
    "deliver": "external.deliver",
    "consumer": "consumer.name",
    "consumer-deliver": "consumer.deliver_subject",
}
_OPTION = re.compile(r"time=\S+ ago(?!\S)|\S+")
"""Pattern of the name or an option in the line of a source; `time=1h ago` has a space."""


def parse_source(text: str) -> Config:
    """Return the mirror or source in a line or JSON; raises ValueError with a sentence."""
    if text.lstrip().startswith("{"):
        return _parse_source_json(text)
    name, *option_texts = _OPTION.findall(text)
    source: Config = {"name": name}
    maps: list[Config] = []
    for option_text in option_texts:
        key, equals_sign, value = option_text.partition("=")
        if key == "map" and ":" in value:
            maps.append(dict(zip(("src", "dest"), value.split(":", 1), strict=True)))
        elif equals_sign and value and key in _SOURCE_KEYS:
            is_sequence = key == "seq"
            if is_sequence and not value.isdigit():
                raise ValueError(f"{value!r} is not a sequence: write it as seq=100")
            if value.endswith(" ago"):
                value = parse_moment(value).isoformat().replace("+00:00", "Z")
            source = with_value_at(source, _SOURCE_KEYS[key], int(value) if is_sequence else value)
        else:
            keys_text = ", ".join([*_SOURCE_KEYS, "map"])
            raise ValueError(
                f"{option_text!r} is not a known option: write key=value, with a key of "
                f"{keys_text}"
            )
    return {**source, "subject_transforms": maps} if maps else source


def parse_sources(text: str) -> list[Config]:
    """Return the sources in a line, separated by `;`, or in a JSON list.

    Raises ValueError with a sentence.
    """
    if text.lstrip().startswith(("{", "[")):
        decoded = _parse_json(text)
        return [
            _check_source(item) for item in (decoded if isinstance(decoded, list) else [decoded])
        ]
    return [parse_source(part) for part in text.split(";") if part.strip()]


def _parse_source_json(text: str) -> Config:
    return _check_source(_parse_json(text))


def _parse_json(text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise ValueError(f"this is not valid JSON: {error}") from error


def _check_source(item: object) -> Config:
    if not isinstance(item, dict) or not text_at(item, "name"):
        raise ValueError('an object needs the name of a stream, as {"name": "ORDERS"}')
    return item


def format_source(source: Config) -> str:
    """Return the text from which `parse_source` returns a source: a line, else JSON."""
    line = _format_line(source)
    if not text_at(source, "name") or parse_source(line) != source:
        return json.dumps(source, ensure_ascii=False)
    return line


def format_sources(sources: tuple[Config, ...]) -> str:
    """Return the text from which `parse_sources` returns the sources."""
    texts = [format_source(source) for source in sources]
    if any(text.startswith("{") or ";" in text for text in texts):
        return json.dumps(sources, ensure_ascii=False)
    return "; ".join(texts)


def _format_line(source: Config) -> str:
    parts = [text_at(source, "name")]
    for key, path in _SOURCE_KEYS.items():
        value = number_at(source, path) if key == "seq" else text_at(source, path)
        parts += [f"{key}={value}"] if value else []
    for mapping in objects_at(source, "subject_transforms"):
        parts.append(f"map={text_at(mapping, 'src')}:{text_at(mapping, 'dest')}")
    return " ".join(parts)


_UNITS_NS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def exact_duration(duration_ns: int) -> str:
    """Return the exact text of a duration: `2m`, `1d3h`, `1.5s`, `250ms`, `1ns`."""
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
    """Return the exact text of a size: `256MB`, `1000`."""
    for unit in ("", "KB", "MB", "GB", "TB", "PB"):
        if size_bytes < 1024 or size_bytes % 1024:
            return f"{size_bytes}{unit}"
        size_bytes //= 1024
    return f"{size_bytes}EB"


UNLIMITED = "unlimited"
"""Text of a missing limit."""
_UNLIMITED = {"-1", UNLIMITED, "none"}
SWITCH_VALUES = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
"""Text of a switch → its value."""


def parse_field(field: Field, text: str) -> object:
    """Return the value of a typed text for a field, in the unit of the server; None if empty.

    Raises ValueError with a sentence.
    """
    text = text.strip()
    return _PARSERS[field.kind](field, text) if text else None


def parse_repeated(field: Field, texts: Sequence[str]) -> object:
    """Return the value of a repeated flag; None if all of its texts are empty.

    Lists are concatenated; of other fields the last text counts. A pair of metadata is not split
    at commas, because each pair has its own flag. Raises ValueError with a sentence.
    """
    non_empty_texts = [text for text in texts if text.strip()]
    if not non_empty_texts:
        return None
    if field.kind == "metadata":
        return {
            key: item for text in non_empty_texts for key, item in _parse_pair(field, text).items()
        }
    if field.kind in _LISTS:
        return [item for text in non_empty_texts for item in _items(parse_field(field, text))]
    return parse_field(field, texts[-1])


_LISTS = ("subjects", "words", "durations", "sources")


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _parse_pair(field: Field, text: str) -> dict[str, str]:
    if text.lstrip().startswith("{"):
        return _parse_metadata(field, text)
    key, equals_sign, value = text.partition("=")
    if not equals_sign or not key.strip():
        raise ValueError(f"{field.label}: write {text.strip()!r} as key=value")
    if ":" in key:
        json_text = json.dumps({key.strip(): value}, ensure_ascii=False)
        raise ValueError(
            f"{field.label}: the NATS CLI ends a key at its colon: write {key.strip()!r} as JSON, "
            f"{json_text}"
        )
    return _check_not_reserved(field, {key.strip(): value})


def format_field(field: Field, value: object) -> str:
    """Return the text from which `parse_field` returns a value, except metadata of the server."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.kind in ("count", "bytes", "duration") and isinstance(value, int):
        return _format_number(field, value)
    if field.kind == "durations" and isinstance(value, (list, tuple)):
        return ", ".join(exact_duration(int(item)) for item in value)
    if field.kind == "sources":
        return format_sources(objects_at({"value": value}, "value"))
    if field.kind == "source" and isinstance(value, Mapping):
        return format_source(dict(value))
    if isinstance(value, Mapping):
        users_metadata = {
            str(key): str(v) for key, v in value.items() if not _is_reserved(str(key))
        }
        return ", ".join(
            f"{_quote(key, _IN_KEYS)}={_quote(v, ',')}" for key, v in users_metadata.items()
        )
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def _format_number(field: Field, value: int) -> str:
    if value < 0 or (value == 0 and field.default == 0 and field.path == "max_age"):
        return UNLIMITED
    if field.kind == "duration":
        return exact_duration(value)
    return exact_bytes(value) if field.kind == "bytes" else str(value)


def _parse_text(_field: Field, text: str) -> object:
    return text


def _parse_subject(field: Field, text: str) -> object:
    if not is_subject(text):
        raise ValueError(f"{field.label}: {text!r} is not a valid subject")
    return text


def _parse_list(field: Field, text: str) -> object:
    items = [item for item in re.split(r"[,\s]+", text) if item]
    invalid_subject = next(
        (item for item in items if field.kind == "subjects" and not is_subject(item)), None
    )
    if invalid_subject is not None:
        raise ValueError(f"{field.label}: {invalid_subject!r} is not a valid subject")
    return items


def _parse_choice(field: Field, text: str) -> object:
    text = dict(field.spellings).get(text, text)
    if text not in field.choices:
        raise ValueError(f"{field.label} must be one of {', '.join(field.choices)}, not {text!r}")
    return text


def _parse_switch(field: Field, text: str) -> object:
    if text.lower() not in SWITCH_VALUES:
        raise ValueError(f"{field.label} must be yes or no, not {text!r}")
    return SWITCH_VALUES[text.lower()]


def _parse_number(field: Field, text: str) -> object:
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


def _parse_durations(field: Field, text: str) -> object:
    return [_parse_duration(field, part) for part in re.split(r"[,\s]+", text) if part]


def _parse_duration(field: Field, text: str) -> int:
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _parse_time(field: Field, text: str) -> object:
    try:
        moment = parse_moment(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error
    if text[:4].isdigit() and "T" in text and datetime.fromisoformat(text).tzinfo is not None:
        return text  # kept letter by letter: the server compares nanoseconds
    return moment.isoformat().replace("+00:00", "Z")


_IN_KEYS = ',="{'
"""Characters for which a metadata key is quoted; a value is quoted only for a comma."""
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(
    rf"\s*({_QUOTED}(?=\s*=)|[^=,\"]*)\s*=\s*({_QUOTED}(?=\s*(?:,|$))|[^,]*)\s*(?:,|$)"
)


def _quote(text: str, separating: str) -> str:
    """Return a text, as a JSON string if it needs quotes in a `key=value` pair."""
    is_plain = text == text.strip() and not text.startswith('"') and text.isprintable()
    is_plain = is_plain and (bool(text) or separating != _IN_KEYS)
    is_plain = is_plain and not any(letter in text for letter in separating)
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _unquote(field: Field, text: str) -> str:
    if not text.startswith('"') or not text.endswith('"') or len(text) == 1:
        return text
    try:
        return str(parse_json(text))
    except ValueError as error:
        raise ValueError(f"{field.label}: {text} is not a string of JSON") from error


def _parse_threshold(field: Field, text: str) -> object:
    try:
        return check_threshold(field.path.removeprefix("metadata."), text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _parse_metadata(field: Field, text: str) -> dict[str, str]:
    """Return the pairs of `key=value, note="a, b"`, or of a JSON object."""
    if text.lstrip().startswith("{"):
        try:
            decoded = parse_json(text)
        except ValueError as error:
            raise ValueError(f"{field.label}: this is not valid JSON: {error}") from error
        return _check_not_reserved(
            field, {key: metadata_text(item) for key, item in decoded.items()}
        )
    pairs, position = {}, 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None or not match[1].strip():
            invalid_pair = text[position:].split(",")[0].strip()
            if invalid_pair:
                raise ValueError(f"{field.label}: write {invalid_pair!r} as key=value")
            position = text.find(",", position) + 1 or len(text)
            continue
        pairs[_unquote(field, match[1].strip())] = _unquote(field, match[2].strip())
        position = match.end()
    return _check_not_reserved(field, pairs)


def _is_reserved(key: str) -> bool:
    return key.startswith(READ_ONLY_METADATA)


def metadata_text(value: object) -> str:
    """Return a value of metadata as text, as the server accepts only texts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_not_reserved(field: Field, pairs: dict[str, str]) -> dict[str, str]:
    reserved = next(filter(_is_reserved, pairs), None)
    if reserved is not None:
        text = (
            f"{reserved!r} is set by the server: keys that begin with {READ_ONLY_METADATA} "
            "cannot be changed"
        )
        raise ValueError(f"{field.label}: {text}")
    return pairs


def _parse_source(field: Field, text: str) -> object:
    try:
        return parse_source(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _parse_sources(field: Field, text: str) -> object:
    try:
        return parse_sources(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


_PARSERS: dict[str, Callable[[Field, str], object]] = {
    "text": _parse_text,
    "subject": _parse_subject,
    "subjects": _parse_list,
    "words": _parse_list,
    "choice": _parse_choice,
    "switch": _parse_switch,
    "count": _parse_number,
    "bytes": _parse_number,
    "duration": _parse_number,
    "durations": _parse_durations,
    "time": _parse_time,
    "metadata": _parse_metadata,
    "threshold": _parse_threshold,
    "source": _parse_source,
    "sources": _parse_sources,
}
