"""One message of those that were listened to."""

from __future__ import annotations

from natstui.decoding import decoder_of
from natstui.model.records.listening import Heard, ReadHeard
from natstui.model.records.messages import StoredMessage
from natstui.model.records.record import Command

_decoder = decoder_of(Heard)


class HeardSource:
    """The newest messages that came, which are in no stream that is known."""

    stream = ""

    def command(self, number: int) -> Command:
        """Return the command that reads one."""
        return ReadHeard(0, number)

    def message_of(self, body_json: str) -> tuple[StoredMessage, str]:
        """Return the message of an answer, and where its reply is awaited."""
        heard = _decoder.decode(body_json)
        return heard.message, heard.reply

    def called(self, number: int) -> str:
        """Return the how manieth it was."""
        return f"heard {number:,}"
