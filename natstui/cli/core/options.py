"""Flags that message commands share, and how sending is confirmed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar

import click
from msgspec import Struct

from natstui.cli.core.payload import fill_templates, parse_headers, read_payload
from natstui.cli.options import parse_seconds
from natstui.errors import UsageError
from natstui.units import parse_duration_ns, parse_moment

T = TypeVar("T")


class MessageOptions(Struct, frozen=True):
    """The payload and headers of a command line; `has_templates`: templates are filled in."""

    payload: bytes
    headers: tuple[tuple[str, str], ...]
    has_templates: bool

    def payloads(self, count: int) -> Iterator[bytes]:
        """Yield the payload `count` times, each time with its templates filled in.

        Raises UsageError for an unknown template at the call, before the first payload.
        """
        if self.has_templates:
            return fill_templates(self.payload, count)
        return itertools.repeat(self.payload, count)


def message_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add PAYLOAD, `--file`, `--header` and `--templates` to a command.

    The command gets them as `message: MessageOptions`; an invalid value raises UsageError.
    """

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
    def run_with_message(
        *, payload: str | None, file: str | None, headers: tuple[str, ...], templates: bool,
        **options: Any,
    ) -> Any:  # fmt: skip
        header_pairs = parse_headers(headers)
        message = MessageOptions(read_payload(payload, file), header_pairs, templates)
        return command(message=message, **options)

    return run_with_message


def parse_optional_time(text: str | None, option: str) -> datetime | None:
    """Return the time of a text: a time with or without a date, or a duration before now.

    Returns None for None. Raises UsageError that names `option` for an invalid text.
    """
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


def parse_optional_seconds(text: str | None, option: str) -> float | None:
    """Return the seconds of `500ms` or `2s`, None for None; raises UsageError that names
    `option`.
    """
    return None if text is None else parse_seconds(text, option)
