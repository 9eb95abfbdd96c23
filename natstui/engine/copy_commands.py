"""Answers what the screen of given-up messages asks, and sends them again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import assert_never

from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.copying.dead_letters import (
    account_text,
    count_again,
    find_given_up,
    send_again,
)
from natstui.model.records.copies import CopyCommand, CountAgain, FindGivenUp, SendAgain
from natstui.session.library import find
from natstui.session.read.given_up import recorded_give_ups
from natstui.session.read.recording import Recording
from natstui.units import counted


async def answer_copy(writer: Writer, command: CopyCommand, sessions: Path) -> tuple[str, object]:
    """Return a sentence and the answer; raises Refused, SessionError and the request errors.

    `sessions` is the folder of all recordings.
    """
    match command:
        case FindGivenUp():
            recorded, left_out = await asyncio.to_thread(_recorded, command, sessions)
            found = await find_given_up(writer.client, command, recorded)
            text = f"{counted(f'{len(found.sequences):,}', 'message')} of {command.consumer}"
            text += f"; {left_out:,} more are only counted in recordings" if left_out else ""
            return text, found
        case CountAgain():
            return "what would be sent", await count_again(writer.client, command)
        case SendAgain():
            account = await send_again(writer, command)
            return account_text(account), None
        case _:
            assert_never(command)


def _recorded(asked: FindGivenUp, sessions: Path) -> tuple[tuple[tuple[int, int], ...], int]:
    found, left_out = list[tuple[int, int]](), 0
    for name in asked.sessions:
        recording = Recording(find(sessions, name))
        some, uncounted = recorded_give_ups(recording, asked.stream, asked.consumer)
        found, left_out = found + some, left_out + uncounted
    return tuple(found), left_out
