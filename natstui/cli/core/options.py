"""Flags that commands about messages share, and how what they send is confirmed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import click

from natstui.cli.core.payload import filled, given_headers, given_payload
from natstui.cli.options import parse_seconds
from natstui.errors import UsageError
from natstui.units import parse_duration_ns, parse_moment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """The message of a command line."""

    payload: bytes
    headers: tuple[tuple[str, str], ...]
    has_templates: bool

    def payloads(self, count: int) -> Iterator[bytes]:
        """Return the payload so many times, filled in; raises UsageError."""
        if self.has_templates:
            return filled(self.payload, count)
        return itertools.repeat(self.payload, count)


def message_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a payload, `--file`, `--header` and `--templates` as `given: Given`."""

    @click.argument("payload", required=False)
    @click.option("--file", metavar="FILE", help="Read the payload from a file; - is stdin.")
    @click.option(
        "--header",
        "-H",
        "headers",
        metavar="NAME:VALUE",
        multiple=True,
        help="A header. Repeat for several.",
    )
    @click.option(
        "--templates/--no-templates",
        default=True,
        help="Replace {{Count}}, {{Time}}, {{TimeStamp}}, {{Unix}}, {{UnixNano}}, {{ID}} and "
        "{{Random 10 20}}: random letters, minimum and maximum length.",
    )
    @functools.wraps(command)
    def with_given(
        *, payload: str | None, file: str | None, headers: tuple[str, ...], templates: bool,
        **others: Any,
    ) -> Any:  # fmt: skip
        pairs = given_headers(headers)
        given = MessageOptions(given_payload(payload, file), pairs, templates)
        return command(given=given, **others)

    return with_given


def moment_of(text: str | None, option: str) -> datetime | None:
    """Return a time; a duration alone is so long ago, as in the NATS CLI. Raises UsageError."""
    if text is None:
        return None
    try:
        parse_duration_ns(text)
        text = f"{text} ago"
    except ValueError:
        pass
    try:
        return parse_moment(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def seconds_of(text: str | None, option: str) -> float | None:
    """Return seconds of `500ms`, `2s`; raises UsageError."""
    return None if text is None else parse_seconds(text, option)
