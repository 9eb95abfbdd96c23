"""What a message holds, as the command line says it: text, a file, stdin, or a template."""

from __future__ import annotations

import itertools
import random
import re
import string
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from natstui.errors import UsageError
from natstui.files import MOST_PAYLOAD_BYTES, read_given, read_stdin
from natstui.jetstream.connection.nats_client import is_header

_PLACE = re.compile(r"\{\{\s*(?P<name>[A-Za-z]*)(?P<numbers>[\s\d,()]*)\s*\}\}")
_PLACES = "Count, Time, TimeStamp, Unix, UnixNano, ID and Random LEAST MOST"
LONGEST_RANDOM = 1 << 20
LETTERS = string.ascii_letters + string.digits


def given_payload(text: str | None, file: str | None) -> bytes:
    """Return the payload: the text, a file, or stdin where there is neither and it is a pipe.

    Raises UsageError.
    """
    if text is not None and file is not None:
        raise UsageError("both a payload and --file are given: use only one")
    if file is not None and file != "-":
        try:
            return read_given(Path(file), MOST_PAYLOAD_BYTES)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if text is not None:
        return text.encode(errors="surrogateescape")
    if file == "-" or not sys.stdin.isatty():
        try:
            return read_stdin(MOST_PAYLOAD_BYTES)
        except OSError as error:
            raise UsageError(f"the payload on stdin cannot be read: {error.strerror}") from error
    return b""


def given_headers(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of `NAME:VALUE`; raises UsageError for a text that is none."""
    pairs = []
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not is_header(name.strip(), value.strip()):
            raise UsageError(
                f"--header {text!r}: write it as NAME:VALUE, without a blank in NAME, on one line"
            )
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


def filled(payload: bytes, count: int) -> Iterator[bytes]:
    """Yield the payload so many times, its `{{Count}}`, `{{Random 10 20}}` … filled in.

    Raises UsageError for a place that has no meaning, before the first one.
    """
    text = payload.decode("utf-8", "surrogateescape")
    made = [(match.group(), _filler(match)) for match in _PLACE.finditer(text)]
    if text.count("{{") != len(made):
        at = text.index("{{")
        raise UsageError(
            f"{text[at : at + 20]!r} is not a known template; known are {_PLACES}; "
            "--no-templates sends it as it is")  # fmt: skip
    if not made:
        return itertools.repeat(payload, count)
    return (_one(text, made, number) for number in range(1, count + 1))


Filler = Callable[[int], str]


def _one(text: str, made: list[tuple[str, Filler]], number: int) -> bytes:
    parts, at = [], 0
    for place, fill in made:
        found = text.index(place, at)
        parts += [text[at:found], fill(number)]
        at = found + len(place)
    return "".join([*parts, text[at:]]).encode("utf-8", "surrogateescape")


def _filler(match: re.Match[str]) -> Filler:
    name, numbers = match["name"], [int(text) for text in re.findall(r"\d+", match["numbers"])]
    if name == "Random":
        if len(numbers) != 2 or not 0 <= numbers[0] <= numbers[1] <= LONGEST_RANDOM:
            raise UsageError(f"{match.group()}: write it as {{{{Random 10 20}}}}, minimum first")
        return lambda _number: "".join(random.choices(LETTERS, k=random.randint(*numbers)))
    if name not in _FILLERS or numbers:
        raise UsageError(f"{match.group()} is not a known template; known are {_PLACES}")
    return _FILLERS[name]


_FILLERS: dict[str, Filler] = {
    "Count": str,
    "Time": lambda _number: datetime.now().strftime("%X"),
    "TimeStamp": lambda _number: datetime.now(UTC).isoformat(),
    "Unix": lambda _number: str(int(time.time())),
    "UnixNano": lambda _number: str(time.time_ns()),
    "ID": lambda _number: uuid.uuid4().hex,
}
