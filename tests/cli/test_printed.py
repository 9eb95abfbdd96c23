"""What a command that prints messages says of them at its end."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

import pytest

from natstui.cli.core.printer import MessagePrinter, OutputFormat
from natstui.cli.core.sub import StreamPrinter
from natstui.jetstream.messages.reading import StreamMessage
from natstui.model.records.link import LinkChanged
from natstui.output import OutputFailed, text_file

MESSAGE = StreamMessage("s", 1, 1, (), b"x", 0)


@pytest.mark.parametrize("output_format", ["text", "raw"])
def test_a_message_that_cannot_be_written_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, output_format: OutputFormat
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    printer = MessagePrinter(output_format)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", text_file(full, "utf-8", "strict"))
        with pytest.raises(OutputFailed):
            printer.write_stored(MESSAGE.as_stored(), {})
        os.dup2(os.open(os.devnull, os.O_WRONLY), full)
        sys.stdout.flush()
    assert printer.printed_count == 0


class QuietReader:
    """A reader of a stream to which nothing comes any more."""

    stream = "S"

    def __init__(self, *, has_caught_up: bool) -> None:
        self.has_caught_up = has_caught_up

    async def __aenter__(self) -> QuietReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __anext__(self) -> StreamMessage:
        raise StopAsyncIteration

    async def check_stream(self) -> None:
        """It is the one that it was at the start."""


@pytest.mark.parametrize(
    ("has_caught_up", "told"),
    [
        (True, "none is missing"),
        (False, "what came in the meantime and is not printed, if anything, is missing"),
    ],
)
async def test_none_is_missing_only_once_all_was_read_that_came_while_disconnected(
    has_caught_up: bool, told: str
) -> None:
    flags = {"stream": "S"}
    listening = StreamPrinter((), (), None, None, MessagePrinter("text"), flags)
    for state in ("connected", "reconnecting", "connected"):
        listening.losses.add(LinkChanged(1, cast(Any, state), None))
    await listening._read_and_print(
        cast(Any, QuietReader(has_caught_up=has_caught_up)), "from 1h on"
    )
    assert listening.losses.end_text == f"; the connection was lost 1 time: {told}"
