"""The commands that publish, ask, pull and answer."""

from __future__ import annotations

from natstui.jetstream.pulling import answer, pull_next
from natstui.jetstream.sending import publish, request_reply
from natstui.jetstream.writer import Writer
from natstui.model.send import AnswerMessage, PublishMessage, PullNext, RequestReply

SendingCommand = PublishMessage | RequestReply | PullNext | AnswerMessage


async def send_things(writer: Writer, command: SendingCommand) -> tuple[str, object]:
    """Return a sentence and what came back; raises Refused and the request errors."""
    match command:
        case PublishMessage():
            ack = await publish(writer, command)
            said = "a duplicate of" if ack.duplicate else "stored as"
            return f"{said} {ack.stored_seq} in {ack.stream}", ack
        case RequestReply():
            return "the first reply", await request_reply(writer, command)
        case PullNext():
            return "one message, to be answered", await pull_next(writer, command)
        case AnswerMessage():
            return await answer(writer, command), None
