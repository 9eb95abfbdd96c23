"""Conversion of typed texts to values of a configuration and back, by kind of field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from natstui.model.assets.fields import (
    READ_ONLY_METADATA_PREFIX,
    Config,
    Field,
    number_at,
    objects_at,
    text_at,
    with_value_at,
)
from natstui.model.assets.monitor_keys import check_threshold
from natstui.model.assets.subjects import is_valid_subject
from natstui.parsing import parse_json
from natstui.units import parse_bytes, parse_count, parse_duration_ns, parse_moment

_PATH_BY_SOURCE_OPTION = {
    "seq": "opt_start_seq",
    "time": "opt_start_time",
    "filter": "filter_subject",
    "api": "external.api",
    "deliver": "external.deliver",
    "consumer": "consumer.name",
    "consumer-deliver": "consumer.deliver_subject",
}
_SOURCE_NAME_OR_OPTION = re.compile(r"time=\S+ ago(?!\S)|\S+")
"""Pattern of the name or an option in the line of a source; `time=1h ago` has a space."""


def parse_source(text: str) -> Config:
    """Return the mirror or source in a line or JSON; raises ValueError with a sentence."""
    if text.lstrip().startswith("{"):
        return _parse_source_json(text)
    name, *option_texts = _SOURCE_NAME_OR_OPTION.findall(text)
    source: Config = {"name": name}
    subject_transforms: list[Config] = []
    for option_text in option_texts:
        key, equals_sign, value = option_text.partition("=")
        if key == "map" and ":" in value:
            subject_transforms.append(dict(zip(("src", "dest"), value.split(":", 1), strict=True)))
        elif equals_sign and value and key in _PATH_BY_SOURCE_OPTION:
            is_sequence = key == "seq"
            if is_sequence and not value.isdigit():
                raise ValueError(f"{value!r} is not a sequence: write it as seq=100")
            if value.endswith(" ago"):
                value = parse_moment(value).isoformat().replace("+00:00", "Z")
            source = with_value_at(
                source, _PATH_BY_SOURCE_OPTION[key], int(value) if is_sequence else value
            )
        else:
            keys_text = ", ".join([*_PATH_BY_SOURCE_OPTION, "map"])
            raise ValueError(
                f"{option_text!r} is not a known option: write key=value, with a key of "
                f"{keys_text}"
            )
    return {**source, "subject_transforms": subject_transforms} if subject_transforms else source


def parse_sources(text: str) -> list[Config]:
    """Return the sources in a line, separated by `;`, or in a JSON list.

    Raises ValueError with a sentence.
    """
    if text.lstrip().startswith(("{", "[")):
        decoded_json = _parse_json(text)
        return [
            _check_source(source_object)
            for source_object in (
                decoded_json if isinstance(decoded_json, list) else [decoded_json]
            )
        ]
    return [parse_source(source_text) for source_text in text.split(";") if source_text.strip()]


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
    source_line = _format_source_line(source)
    try:
        if text_at(source, "name") and parse_source(source_line) == source:
            return source_line
    except ValueError:
        # A name that begins as JSON, or a space that is none for the server.
        pass
    return json.dumps(source, ensure_ascii=False)


def format_sources(sources: tuple[Config, ...]) -> str:
    """Return the text from which `parse_sources` returns the sources."""
    texts = [format_source(source) for source in sources]
    if any(text.startswith(("{", "[")) or ";" in text for text in texts):
        return json.dumps(sources, ensure_ascii=False)
    return "; ".join(texts)


def _format_source_line(source: Config) -> str:
    option_texts = [text_at(source, "name")]
    for key, path in _PATH_BY_SOURCE_OPTION.items():
        value = number_at(source, path) if key == "seq" else text_at(source, path)
        option_texts += [f"{key}={value}"] if value else []
    for subject_transform in objects_at(source, "subject_transforms"):
        option_texts.append(
            f"map={text_at(subject_transform, 'src')}:{text_at(subject_transform, 'dest')}"
        )
    return " ".join(option_texts)


_UNITS_NS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def exact_duration(duration_ns: int) -> str:
    """Return the exact text of a duration: `2m`, `1d3h`, `1.5s`, `250ms`, `1ns`."""
    if duration_ns <= 0:
        return "0" if duration_ns == 0 else f"-{exact_duration(-duration_ns)}"
    remaining_s, remaining_ns = divmod(duration_ns, 1_000_000_000)
    unit_texts = []
    for unit, unit_s in _UNITS_NS:
        units_count, remaining_s = divmod(remaining_s, unit_s)
        unit_texts += [f"{units_count}{unit}"] if units_count else []
    for unit, unit_ns in (("ms", 1_000_000), ("us", 1000), ("ns", 1)):
        units_count, remaining_ns = divmod(remaining_ns, unit_ns)
        unit_texts += [f"{units_count}{unit}"] if units_count else []
    return "".join(unit_texts)


def exact_bytes(size_bytes: int) -> str:
    """Return the exact text of a size: `256MB`, `1000`."""
    for unit in ("", "KB", "MB", "GB", "TB", "PB"):
        if size_bytes < 1024 or size_bytes % 1024:
            return f"{size_bytes}{unit}"
        size_bytes //= 1024
    return f"{size_bytes}EB"


UNLIMITED = "unlimited"
"""Text of a missing limit."""
_UNLIMITED_TEXTS = {"-1", UNLIMITED, "none"}
SWITCH_VALUES = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
"""Text of a switch → its value."""


def parse_field(field: Field, text: str) -> object:
    """Return the value of a typed text for a field, in the unit of the server; None if empty.

    Raises ValueError with a sentence.
    """
    text = text.strip()
    return _PARSER_BY_KIND[field.kind](field, text) if text else None


def parse_repeated(field: Field, texts: Sequence[str]) -> object:
    """Return the value of a repeated flag; None if all of its texts are empty.

    Lists are concatenated; for other fields only the last text is used. A pair of metadata is
    not split at commas, because each pair has its own flag. Raises ValueError with a sentence.
    """
    non_empty_texts = [text for text in texts if text.strip()]
    if not non_empty_texts:
        return None
    if field.kind == "metadata":
        return {
            key: item
            for text in non_empty_texts
            for key, item in _parse_metadata_pair(field, text).items()
        }
    if field.kind in _LIST_KINDS:
        return [item for text in non_empty_texts for item in _as_list(parse_field(field, text))]
    return parse_field(field, texts[-1])


_LIST_KINDS = ("subjects", "words", "durations", "sources")


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _parse_metadata_pair(field: Field, text: str) -> dict[str, str]:
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
    return _check_no_reserved_key(field, {key.strip(): value})


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
            str(key): str(v) for key, v in value.items() if not _is_reserved_metadata_key(str(key))
        }
        return ", ".join(
            f"{_quote_if_needed(key, _CHARACTERS_QUOTED_IN_KEYS)}={_quote_if_needed(v, ',')}"
            for key, v in users_metadata.items()
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
    if not is_valid_subject(text):
        raise ValueError(f"{field.label}: {text!r} is not a valid subject")
    return text


def _parse_list(field: Field, text: str) -> object:
    items = [item for item in re.split(r"[,\s]+", text) if item]
    invalid_subject = next(
        (item for item in items if field.kind == "subjects" and not is_valid_subject(item)), None
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
    if text.lower() in _UNLIMITED_TEXTS:
        return 0 if field.default == 0 else -1
    parse_text: Callable[[str], int] = {
        "count": parse_count,
        "bytes": parse_bytes,
        "duration": parse_duration_ns,
    }[field.kind]
    try:
        return parse_text(text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _parse_durations(field: Field, text: str) -> object:
    return [
        _parse_duration(field, duration_text)
        for duration_text in re.split(r"[,\s]+", text)
        if duration_text
    ]


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


_CHARACTERS_QUOTED_IN_KEYS = ',="{'
"""Characters for which a metadata key is quoted; a value is quoted only for a comma."""
_QUOTED_TEXT = r'"(?:[^"\\]|\\.)*"'
_METADATA_PAIR = re.compile(
    rf"\s*({_QUOTED_TEXT}(?=\s*=)|[^=,\"]*)\s*=\s*({_QUOTED_TEXT}(?=\s*(?:,|$))|[^,]*)\s*(?:,|$)"
)


def _quote_if_needed(text: str, separators: str) -> str:
    """Return a text, as a JSON string if it has one of `separators` or is ambiguous."""
    needs_no_quotes = text == text.strip() and not text.startswith('"') and text.isprintable()
    needs_no_quotes = needs_no_quotes and (bool(text) or separators != _CHARACTERS_QUOTED_IN_KEYS)
    needs_no_quotes = needs_no_quotes and not any(character in text for character in separators)
    return text if needs_no_quotes else json.dumps(text, ensure_ascii=False)


def _unquote(field: Field, text: str) -> str:
    if not text.startswith('"') or not text.endswith('"') or len(text) == 1:
        return text
    try:
        return str(parse_json(text))
    except ValueError as error:
        raise ValueError(f"{field.label}: {text} is not a string of JSON") from error


def _parse_monitor_threshold(field: Field, text: str) -> object:
    try:
        return check_threshold(field.path.removeprefix("metadata."), text)
    except ValueError as error:
        raise ValueError(f"{field.label}: {error}") from error


def _parse_metadata(field: Field, text: str) -> dict[str, str]:
    """Return the pairs of `key=value, note="a, b"`, or of a JSON object."""
    if text.lstrip().startswith("{"):
        try:
            decoded_json = parse_json(text)
        except ValueError as error:
            raise ValueError(f"{field.label}: this is not valid JSON: {error}") from error
        return _check_no_reserved_key(
            field, {key: metadata_text(item) for key, item in decoded_json.items()}
        )
    pairs, text_index = {}, 0
    while text_index < len(text):
        match = _METADATA_PAIR.match(text, text_index)
        if match is None or not match[1].strip():
            invalid_pair = text[text_index:].split(",")[0].strip()
            if invalid_pair:
                raise ValueError(f"{field.label}: write {invalid_pair!r} as key=value")
            text_index = text.find(",", text_index) + 1 or len(text)
            continue
        pairs[_unquote(field, match[1].strip())] = _unquote(field, match[2].strip())
        text_index = match.end()
    return _check_no_reserved_key(field, pairs)


def _is_reserved_metadata_key(key: str) -> bool:
    return key.startswith(READ_ONLY_METADATA_PREFIX)


def metadata_text(value: object) -> str:
    """Return a metadata value as the text that the server accepts: a string, else JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_no_reserved_key(field: Field, pairs: dict[str, str]) -> dict[str, str]:
    reserved_key = next(filter(_is_reserved_metadata_key, pairs), None)
    if reserved_key is not None:
        text = (
            f"{reserved_key!r} is set by the server: keys that begin with "
            f"{READ_ONLY_METADATA_PREFIX} cannot be changed"
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


_PARSER_BY_KIND: dict[str, Callable[[Field, str], object]] = {
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
    "threshold": _parse_monitor_threshold,
    "source": _parse_source,
    "sources": _parse_sources,
}
