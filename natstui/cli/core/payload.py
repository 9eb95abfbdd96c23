"""The payload of a message on the command line: text, file, stdin, or template."""

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
from natstui.files import MAX_PAYLOAD_BYTES, read_stdin, read_user_file
from natstui.jetstream.connection.nats_client import is_valid_header

_TEMPLATE_PATTERN = re.compile(r"\{\{\s*(?P<name>[A-Za-z]*)(?P<numbers>[\s\d,()]*)\s*\}\}")
_TEMPLATES_TEXT = "Count, Time, TimeStamp, Unix, UnixNano, ID and Random MIN MAX"
MAX_RANDOM_LETTERS = 1 << 20
RANDOM_LETTERS = string.ascii_letters + string.digits


def read_payload(text: str | None, file: str | None) -> bytes:
    """Return the payload: `text`, else the content of `file` (`-`: of stdin), else of a piped
    stdin.

    Returns an empty payload without any of them. Raises UsageError if both are given, if the
    payload cannot be read, and if it is too long for any server.
    """
    if text is not None and file is not None:
        raise UsageError("both a payload and --file are given: use only one")
    if file is not None and file != "-":
        try:
            return read_user_file(Path(file), MAX_PAYLOAD_BYTES)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if text is not None:
        return text.encode(errors="surrogateescape")
    if file == "-" or not sys.stdin.isatty():
        try:
            return read_stdin(MAX_PAYLOAD_BYTES)
        except OSError as error:
            raise UsageError(f"the payload on stdin cannot be read: {error.strerror}") from error
    return b""


def parse_headers(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return name and value of each `NAME:VALUE`; raises UsageError for an invalid header."""
    header_pairs = []
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not is_valid_header(name.strip(), value.strip()):
            raise UsageError(
                f"--header {text!r}: write it as NAME:VALUE, without a blank in NAME, on one line"
            )
        header_pairs.append((name.strip(), value.strip()))
    return tuple(header_pairs)


def fill_templates(payload: bytes, count: int) -> Iterator[bytes]:
    """Return an iterator of the payload, `count` times, each with its templates filled in.

    `{{Count}}` starts at 1. Raises UsageError for an unknown template at the call, before the
    first payload.
    """
    text = payload.decode("utf-8", "surrogateescape")
    template_fillers = [
        (match.group(), _create_filler(match)) for match in _TEMPLATE_PATTERN.finditer(text)
    ]
    if text.count("{{") != len(template_fillers):
        position = text.index("{{")
        raise UsageError(
            f"{text[position : position + 20]!r} is not a known template; "
            f"known are {_TEMPLATES_TEXT}; --no-templates sends it as it is")  # fmt: skip
    if not template_fillers:
        return itertools.repeat(payload, count)
    return (_fill_text(text, template_fillers, number) for number in range(1, count + 1))


TemplateFiller = Callable[[int], str]


def _fill_text(
    text: str, template_fillers: list[tuple[str, TemplateFiller]], payload_number: int
) -> bytes:
    text_parts, position = [], 0
    for template, fill in template_fillers:
        template_start = text.index(template, position)
        text_parts += [text[position:template_start], fill(payload_number)]
        position = template_start + len(template)
    return "".join([*text_parts, text[position:]]).encode("utf-8", "surrogateescape")


def _create_filler(match: re.Match[str]) -> TemplateFiller:
    name, numbers = match["name"], [int(text) for text in re.findall(r"\d+", match["numbers"])]
    if name == "Random":
        if len(numbers) != 2 or not 0 <= numbers[0] <= numbers[1] <= MAX_RANDOM_LETTERS:
            raise UsageError(f"{match.group()}: write it as {{{{Random 10 20}}}}, minimum first")
        return lambda _number: "".join(random.choices(RANDOM_LETTERS, k=random.randint(*numbers)))
    if name not in _FILLER_BY_TEMPLATE_NAME or numbers:
        raise UsageError(f"{match.group()} is not a known template; known are {_TEMPLATES_TEXT}")
    return _FILLER_BY_TEMPLATE_NAME[name]


_FILLER_BY_TEMPLATE_NAME: dict[str, TemplateFiller] = {
    "Count": str,
    "Time": lambda _number: datetime.now().strftime("%X"),
    "TimeStamp": lambda _number: datetime.now(UTC).isoformat(),
    "Unix": lambda _number: str(int(time.time())),
    "UnixNano": lambda _number: str(time.time_ns()),
    "ID": lambda _number: uuid.uuid4().hex,
}
