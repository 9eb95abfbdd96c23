"""The account of a copy, for people and for programs."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Self

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.text_table import print_rows
from natstui.jetstream.messages.copying.account import Account
from natstui.jetstream.messages.copying.copy import MOST_SUBJECTS, Copy, Counts
from natstui.units import bytes_text, counted

_SHOWN_S = 0.2


class Progress:
    """How far it is, on one line of a terminal; nothing where stderr is none."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._shown = sys.stderr.isatty()
        self._shown_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown_s:
            click.echo("\r\x1b[K", err=True, nl=False)

    def tell(self, account: Account, waits: str) -> None:
        """Show what was copied, and what it waits for."""
        now_s = time.monotonic()
        if not self._shown or (now_s - self._shown_s < _SHOWN_S and not waits):
            return
        self._shown_s = now_s
        text = f"{counted(f'{account.read_msgs:,}', 'message')}, up to {account.last_seq}"
        text += f"; waiting: {waits}" if waits else ""
        click.echo(f"\r\x1b[K{clean_line(text)}", err=True, nl=False)


def print_account(copy: Copy, *, as_json: bool) -> None:
    """Print what became of every message."""
    account = copy.account
    if as_json:
        told = dataclasses.asdict(account)
        told |= {"from": copy.name, "refusals": dict(account.refusals)}
        click.echo(clean_json(json.dumps(told)))
        return
    where = f", {account.first_seq}…{account.last_seq}" if account.first_seq else ""
    size = bytes_text(account.payload_bytes)
    click.echo(clean_line(f"{account.read_msgs:,} read from {copy.name}{where}, {size}"))
    again = f" ({account.confirmed_msgs:,} asked for twice)" if account.confirmed_msgs else ""
    for count, text in (
        (account.acknowledged_msgs, f"acknowledged{again}"),
        (account.duplicate_msgs, "duplicates: the target had them already"),
        (account.refused_msgs, "refused"),
        (account.unknown_msgs, "unknown: sent and not answered"),
        (account.gone_msgs, "gone: not in the stream any more, and not read"),
        (account.without_rollup_msgs, "sent without their roll-up"),
    ):
        if count or text.startswith(("acknowledged", "duplicates", "refused")):
            click.echo(f"{count:>12,} {text}")
    for reason, count in account.refusals.most_common():
        click.echo(clean_line(f"{'':12} {count:,} refused: {reason}"))


def print_counts(counts: Counts, copy: Copy, *, as_json: bool) -> None:
    """Print what would be copied."""
    if as_json:
        told = dataclasses.asdict(counts)
        told |= {"from": copy.name, "subjects": dict(counts.subjects.most_common())}
        click.echo(clean_json(json.dumps(told)))
        return
    print_rows(
        ("SUBJECT", "STORED IN", "MESSAGES"),
        [
            (subject, counts.streams.get(subject) or "no stream", f"{count:,}")
            for subject, count in counts.subjects.most_common(MOST_SUBJECTS)
        ],
        words_count=2,
    )
    more = len(counts.subjects) - MOST_SUBJECTS
    where = f", {counts.first_seq}…{counts.last_seq}" if counts.first_seq else ""
    text = f"{counted(f'{counts.messages:,}', 'message')} of {copy.name}{where}"
    text += f", {bytes_text(counts.payload_bytes)}; nothing was sent"
    text += f"; {more:,} more subjects" if more > 0 else ""
    text += f"; {counts.gone:,} are gone" if counts.gone else ""
    click.echo(clean_line(f"natstui: {text}"), err=True)
