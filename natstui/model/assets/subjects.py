"""Subjects as the server reads them: which are valid, which overlap, what a mapping may say."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SPACE = re.compile(r"\s", re.ASCII)


def is_subject(text: str) -> bool:
    """Return whether `text` is a subject or a filter: tokens, `*` alone in one, `>` only last."""
    return is_stored_subject(text) and not any(letter.isspace() for letter in text)


def is_stored_subject(text: str) -> bool:
    """Return whether servers read `text` as a subject or filter: only ASCII white space ends one.

    Nobody types a no-break space on purpose, but other clients have stored them.
    """
    tokens = text.split(".")
    return _SPACE.search(text) is None and all(tokens) and ">" not in tokens[:-1]


_INTERNAL = (
    "$JS", "$SYS", "$SRV", "$NRG", "$GNR", "$LDS", "_INBOX", "_R_", "_GR_", "_EF_",
)  # fmt: skip
"""First tokens that servers and clients use among themselves."""


def is_internal(subject: str) -> bool:
    """Return whether servers and clients use a subject among themselves, as their requests do."""
    return subject.partition(".")[0] in _INTERNAL


def has_wildcard(subject: str) -> bool:
    """Return whether a token is `*` or `>`."""
    return any(token in ("*", ">") for token in subject.split("."))


def is_literal(subject: str) -> bool:
    """Return whether `subject` names one subject, as servers read it: without wildcards."""
    return is_stored_subject(subject) and not has_wildcard(subject)


def is_token(text: str) -> bool:
    """Return whether `text` may stand as one token of a subject or filter.

    Whatever comes from a server is checked with it before it becomes a part of one.
    """
    return is_literal(text) and "." not in text


def is_flow_control(subject: str, stream: str, consumer: str) -> bool:
    """Tell whether an empty message to `subject` lets this consumer deliver more, and only that.

    Whoever can publish to where a consumer delivers names any subject for the answer.
    """
    tokens = subject.split(".")
    return tokens[:-1] == ["$JS", "FC", stream, consumer] and is_literal(subject)


def overlap(one: str, other: str) -> bool:
    """Return whether some subject matches both filters."""
    left, right = one.split("."), other.split(".")
    for index in range(max(len(left), len(right))):
        if index >= len(left) or index >= len(right):
            return False
        if ">" in (left[index], right[index]):
            return True
        if "*" not in (left[index], right[index]) and left[index] != right[index]:
            return False
    return True


def contains(wide: str, narrow: str) -> bool:
    """Return whether every subject that matches the filter `narrow` matches the filter `wide`."""
    left, right = wide.split("."), narrow.split(".")
    for each, other in zip(left, right, strict=False):
        if each == ">":
            return True
        if other == ">" or each not in ("*", other):
            return False
    return len(left) == len(right)


def first_overlap(subjects: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two entries that overlap each other."""
    for index, one in enumerate(subjects):
        for other in subjects[index + 1 :]:
            if overlap(one, other):
                return one, other
    return None


_FUNCTION = re.compile(r"\{\{\s*(\w+)\s*\(([^)]*)\)\s*\}\}")
_FUNCTIONS = {
    "wildcard", "partition", "split", "splitfromleft", "splitfromright", "slicefromleft",
    "slicefromright", "left", "right", "random",
}  # fmt: skip


def mapping_problem(source: str, destination: str) -> str | None:
    """Return why the server refuses to map `source` to `destination`, or None when it will not.

    A destination names wildcards of the source as `$1` or `{{wildcard(1)}}`.
    """
    if source and not is_subject(source):
        return f"{source!r} is not a valid subject"
    if not destination:
        return None
    if not is_subject(_FUNCTION.sub("x", destination)):
        return f"{destination!r} is not a valid subject"
    return _reference_problem(source or ">", destination) or _shape_problem(source, destination)


def _reference_problem(source: str, destination: str) -> str | None:
    stars = source.split(".").count("*")
    numbers = [int(text) for text in re.findall(r"\$(\d+)", destination)]
    for name, arguments in _FUNCTION.findall(destination):
        if name.lower() not in _FUNCTIONS:
            return f"{name!r} is not a mapping function of the server"
        if name.lower() == "wildcard":
            numbers.append(int(arguments) if arguments.strip().isdigit() else 0)
    wrong = next((number for number in numbers if not 1 <= number <= stars), None)
    if wrong is None:
        return None
    return f"{destination!r} uses wildcard {wrong}, but {source!r} has {stars}"


def _shape_problem(source: str, destination: str) -> str | None:
    tokens = destination.split(".")
    if "*" in tokens:
        return f"write $1 or {{{{wildcard(1)}}}} instead of * in {destination!r}"
    if (source or ">").endswith(">") != (tokens[-1] == ">"):
        return f"either both or none of {source or '>'!r} and {destination!r} must end with >"
    return None


def mapped(subject: str, source: str, destination: str) -> str | None:
    """Return what a subject becomes, None when it does not match `source`.

    The destination names wildcards as `$1` or `{{wildcard(1)}}`, and may end with `>` as the
    source does. Raises ValueError for the other functions of a server.
    """
    if not overlap(source, subject):
        return None
    words, pattern = subject.split("."), source.split(".")
    stars = [words[at] for at, word in enumerate(pattern) if word == "*"]

    def word_of(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        if name.lower() != "wildcard":
            raise ValueError(f"{name!r} is not supported here: write $1 or {{{{wildcard(1)}}}}")
        return stars[int(argument) - 1]

    filled = _FUNCTION.sub(word_of, destination)
    filled = re.sub(r"\$(\d+)", lambda match: stars[int(match[1]) - 1], filled)
    if filled.endswith(">") and pattern[-1] == ">":
        return filled[:-1] + ".".join(words[len(pattern) - 1 :])
    return filled
