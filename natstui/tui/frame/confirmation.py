"""Changes that the engine refuses until their confirmation is typed: prompted, and sent again."""

from __future__ import annotations

from dataclasses import replace

from natstui.decoding import decoder_of
from natstui.model.records.benchmark import StartBenchmark
from natstui.model.records.confirmation import Confirmation, Place
from natstui.model.records.managing import (
    Change,
    ReadPlace,
    Undo,
)
from natstui.model.records.messages import Answered, PublishMessage, PullNext, RequestReply
from natstui.model.records.stores import ChangeKey, LinkObject, PutFile
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import SystemEngine
from natstui.tui.kit.prompt import Prompt

Confirmable = (
    Change
    | Undo
    | ChangeKey
    | LinkObject
    | PutFile
    | PublishMessage
    | PullNext
    | RequestReply
    | StartBenchmark
)

SENDING_TEXT = "sending … closing this does not stop it"
_confirmation = decoder_of(Confirmation)
_place = decoder_of(Place)


class OpeningPlace:
    """The server and account on which a form was opened: what is typed there is for no other."""

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self.place: Place | None = None
        """None while it is not known, and for a server without a lasting name: after a restart
        that would be another one, and what was typed could not be sent."""

    async def read(self) -> None:
        """Request it; call this once, when the screen opens."""
        reply = await self._screen.engine.request(ReadPlace(0))
        if reply.status == "done" and reply.body_json is not None:
            place = _place.decode(reply.body_json)
            self.place = place if place.place is not None else None

    def decision(self, name: str) -> Confirmation | None:
        """Return what a command for `name` has been decided on, if the place is known."""
        if self.place is None:
            return None
        return Confirmation("", name, needed=False, place=self.place)


async def request_confirmed(screen: LiveScreen, command: Confirmable) -> Answered | None:
    """Return the reply to a command, after a prompt for the name if the engine requires it.

    The second request contains the values that were shown, and goes to the same system. None: the
    name was not typed.
    """
    engine = screen.engine
    reply = await engine.change(command)
    if not needs_confirmation(command, reply):
        return reply
    return await _request_typed(screen, engine, command, reply)


def needs_confirmation(command: Confirmable, reply: Answered) -> bool:
    """Return whether the engine refused a command until its confirmation is typed."""
    return reply.status == "refused" and reply.body_json is not None and command.confirmed is None


def confirmation_in(reply: Answered) -> Confirmation:
    """Return the confirmation in the reply to a command that needs one."""
    return _confirmation.decode(reply.body_json or "")


async def request_shown(screen: LiveScreen, command: Change | Undo) -> Answered | None:
    """Return the reply to a command whose confirmation is always prompted for; None if it was not
    typed.
    """
    engine = screen.engine
    reply = await engine.request(replace(command, dry_run=True))
    if reply.body_json is None:
        return reply
    return await _request_typed(screen, engine, command, reply)


async def _request_typed(
    screen: LiveScreen, engine: SystemEngine, command: Confirmable, reply: Answered
) -> Answered | None:
    confirmed_command = await type_confirmation(screen, command, reply)
    return None if confirmed_command is None else await engine.change(confirmed_command)


async def type_confirmation(
    screen: LiveScreen, command: Confirmable, reply: Answered
) -> Confirmable | None:
    """Return a command with the typed name and the values that were shown; None: not typed.

    `reply` contains the `Confirmation`.
    """
    confirmation = confirmation_in(reply)
    question = f"{confirmation.question[:1].upper()}{confirmation.question[1:]}"
    prompt = Prompt(
        f"{question}. Type {confirmation.name} to confirm", word_to_type=confirmation.name
    )
    typed_name = await screen.app.push_screen_wait(prompt)
    if typed_name is None:
        return None
    confirmed_command = replace(command, confirmed=typed_name)
    if isinstance(confirmed_command, Change | Undo):
        confirmed_command = replace(
            confirmed_command,
            previewed_msgs=confirmation.most_msgs,
            previewed_last_seq=confirmation.last_seq,
            previewed_last_at_us=confirmation.last_at_us,
        )
    if isinstance(confirmed_command, Change):
        confirmed_command = replace(
            confirmed_command, created_at_us=confirmation.created_at_us, place=confirmation.place
        )
    if not isinstance(confirmed_command, Change | Undo):
        confirmed_command = replace(confirmed_command, decided_on=confirmation)
    return confirmed_command
