"""Subjects by the rules of the server: validity, overlap and mappings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

_ASCII_SPACE = re.compile(r"\s", re.ASCII)


def is_valid_subject(text: str) -> bool:
    """Return whether `text` is a valid subject or filter, without any white space."""
    return is_stored_subject(text) and not any(character.isspace() for character in text)


def is_stored_subject(text: str) -> bool:
    """Return whether servers accept `text` as a subject or filter: without ASCII white space.

    `is_valid_subject` also refuses other white space, which may be in stored subjects.
    """
    tokens = text.split(".")
    return _ASCII_SPACE.search(text) is None and all(tokens) and ">" not in tokens[:-1]


_INTERNAL_FIRST_TOKENS = (
    "$JS", "$SYS", "$SRV", "$NRG", "$GNR", "$LDS", "_INBOX", "_R_", "_GR_", "_EF_",
)  # fmt: skip
"""First tokens of subjects that servers and clients use internally."""


def is_internal(subject: str) -> bool:
    """Return whether a subject is used internally by servers and clients."""
    return subject.partition(".")[0] in _INTERNAL_FIRST_TOKENS


def has_wildcard(subject: str) -> bool:
    """Return whether a token of a subject is `*` or `>`."""
    return any(token in ("*", ">") for token in subject.split("."))


def is_literal(subject: str) -> bool:
    """Return whether servers accept `subject` as a subject without wildcards."""
    return is_stored_subject(subject) and not has_wildcard(subject)


def is_token(text: str) -> bool:
    """Return whether `text` is valid as a single token of a subject or filter.

    Texts from a server are checked with it before they become part of a subject.
    """
    return is_literal(text) and "." not in text


def is_stream_name(text: str) -> bool:
    """Return whether a server may have a stream named `text`; control characters are allowed."""
    return is_token(text) and not set("*>/\\") & set(text)


def is_flow_control(subject: str, stream: str, consumer: str) -> bool:
    """Return whether `subject` is a reply subject of the flow control of this consumer.

    Other reply subjects must not be used: any publisher to the deliver subject can set one.
    """
    tokens = subject.split(".")
    return tokens[:-1] == ["$JS", "FC", stream, consumer] and is_literal(subject)


def overlap(first_filter: str, second_filter: str) -> bool:
    """Return whether some subject matches both filters."""
    first_tokens, second_tokens = first_filter.split("."), second_filter.split(".")
    for index in range(max(len(first_tokens), len(second_tokens))):
        if index >= len(first_tokens) or index >= len(second_tokens):
            return False
        if ">" in (first_tokens[index], second_tokens[index]):
            return True
        if (
            "*" not in (first_tokens[index], second_tokens[index])
            and first_tokens[index] != second_tokens[index]
        ):
            return False
    return True


def contains(wide: str, narrow: str) -> bool:
    """Return whether every subject that matches the filter `narrow` matches the filter `wide`."""
    wide_tokens, narrow_tokens = wide.split("."), narrow.split(".")
    for wide_part, narrow_part in zip(wide_tokens, narrow_tokens, strict=False):
        if wide_part == ">":
            return True
        if narrow_part == ">" or wide_part not in ("*", narrow_part):
            return False
    return len(wide_tokens) == len(narrow_tokens)


def first_overlap(subjects: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two subjects that overlap; None if none do."""
    for index, subject in enumerate(subjects):
        for later_subject in subjects[index + 1 :]:
            if overlap(subject, later_subject):
                return subject, later_subject
    return None


_MAPPING_FUNCTION = re.compile(r"\{\{\s*(\w+)\s*\(([^)]*)\)\s*\}\}")
_MAPPING_FUNCTION_NAMES = {
    "wildcard", "partition", "split", "splitfromleft", "splitfromright", "slicefromleft",
    "slicefromright", "left", "right", "random",
}  # fmt: skip


def mapping_problem(source: str, destination: str) -> str | None:
    """Return why the server refuses to map `source` to `destination`; None if it accepts.

    A destination names wildcards of the source as `$1` or `{{wildcard(1)}}`.
    """
    if source and not is_valid_subject(source):
        return f"{source!r} is not a valid subject"
    if not destination:
        return None
    if not is_valid_subject(_MAPPING_FUNCTION.sub("x", destination)):
        return f"{destination!r} is not a valid subject"
    return _wildcard_reference_problem(source or ">", destination) or _wildcard_syntax_problem(
        source, destination
    )


def _wildcard_reference_problem(source: str, destination: str) -> str | None:
    wildcards_count = source.split(".").count("*")
    wildcard_numbers = [int(text) for text in re.findall(r"\$(\d+)", destination)]
    for name, arguments in _MAPPING_FUNCTION.findall(destination):
        if name.lower() not in _MAPPING_FUNCTION_NAMES:
            return f"{name!r} is not a mapping function of the server"
        if name.lower() == "wildcard":
            wildcard_numbers.append(int(arguments) if arguments.strip().isdigit() else 0)
    invalid_number = next(
        (
            wildcard_number
            for wildcard_number in wildcard_numbers
            if not 1 <= wildcard_number <= wildcards_count
        ),
        None,
    )
    if invalid_number is None:
        return None
    return f"{destination!r} uses wildcard {invalid_number}, but {source!r} has {wildcards_count}"


def _wildcard_syntax_problem(source: str, destination: str) -> str | None:
    tokens = destination.split(".")
    if "*" in tokens:
        return f"write $1 or {{{{wildcard(1)}}}} instead of * in {destination!r}"
    if (source or ">").endswith(">") != (tokens[-1] == ">"):
        return f"either both or none of {source or '>'!r} and {destination!r} must end with >"
    return None


def map_subject(subject: str, source: str, destination: str) -> str | None:
    """Return the subject mapped to `destination`; None if it does not match `source`.

    The destination names wildcards as `$1` or `{{wildcard(1)}}`, and may end with `>` as the
    source does. Raises ValueError for the other functions of a server.
    """
    if not overlap(source, subject):
        return None
    tokens, source_tokens = subject.split("."), source.split(".")
    wildcard_tokens = [
        tokens[index] for index, source_part in enumerate(source_tokens) if source_part == "*"
    ]

    def replace_function(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        if name.lower() != "wildcard":
            raise ValueError(f"{name!r} is not supported here: write $1 or {{{{wildcard(1)}}}}")
        return wildcard_tokens[int(argument) - 1]

    mapped_subject = _MAPPING_FUNCTION.sub(replace_function, destination)
    mapped_subject = re.sub(
        r"\$(\d+)", lambda match: wildcard_tokens[int(match[1]) - 1], mapped_subject
    )
    if mapped_subject.endswith(">") and source_tokens[-1] == ">":
        return mapped_subject[:-1] + ".".join(tokens[len(source_tokens) - 1 :])
    return mapped_subject


_ONE_TOKEN_FUNCTIONS = {"wildcard", "partition", "random"}


def stored_filter(subject: str, source: str, destination: str) -> str:
    """Return a filter for the subjects under which a stream stores messages to `subject`.

    `source` and `destination` are those of the stream's subject transform. A subject that the
    source does not match stays unchanged.
    """
    if not destination or not overlap(source or ">", subject):
        return subject
    if not contains(source or ">", subject):
        return ">"
    with suppress(ValueError):
        if is_literal(subject):
            return map_subject(subject, source or ">", destination) or subject
    destination_filter = _MAPPING_FUNCTION.sub(
        lambda match: "*" if match[1].lower() in _ONE_TOKEN_FUNCTIONS else ">", destination
    )
    tokens: list[str] = []
    for token in re.sub(r"\$\d+", "*", destination_filter).split("."):
        tokens.append(">" if ">" in token else "*" if "*" in token else token)
        if tokens[-1] == ">":
            break
    return ".".join(tokens)
