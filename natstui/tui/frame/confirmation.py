"""Prompts for the confirmation that the engine requires for a change, then sends the change
again.
"""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.records.benchmark import StartBenchmark
from natstui.model.records.confirmation import Confirmation, ServerIdentity
from natstui.model.records.copies import ResendMessages
from natstui.model.records.managing import (
    Change,
    ReadServerIdentity,
    Undo,
)
from natstui.model.records.messages import Answered, PublishMessage, PullNext, RequestReply
from natstui.model.records.stores import ChangeKey, LinkObject, PutFile
from natstui.model.records.system import KickConnection, RemoveServer
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import SystemEngine, show_reply
from natstui.tui.kit.prompt import Prompt
from natstui.values import replace

ConfirmableCommand = (
    Change
    | Undo
    | ChangeKey
    | LinkObject
    | PutFile
    | PublishMessage
    | PullNext
    | RequestReply
    | StartBenchmark
    | KickConnection
    | RemoveServer
    | ResendMessages
)

SENDING_TEXT = "sending … closing this does not stop it"
_confirmation_decoder = decoder_of(Confirmation)
_identity_decoder = decoder_of(ServerIdentity)


class FormServer:
    """The server and account on which a form was opened: typed text is sent to no other."""

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self.identity: ServerIdentity | None = None
        """None while the identity is not known, and for a server without a configured name: its
        name changes with a restart, and typed text could not be sent any more."""

    async def read(self) -> None:
        """Request the identity of the server; to be called once, when the screen opens."""
        reply = await self._screen.engine.request(ReadServerIdentity(0))
        if reply.status == "done" and reply.body_json is not None:
            identity = _identity_decoder.decode(reply.body_json)
            self.identity = identity if identity.place is not None else None

    def confirmation_for(self, name: str) -> Confirmation | None:
        """Return the confirmation that binds a command for `name` to this server; None while the
        server is not known.
        """
        if self.identity is None:
            return None
        return Confirmation("", name, needed=False, place=self.identity)


async def request_confirmed(
    screen: LiveScreen,
    command: ConfirmableCommand,
    engine: SystemEngine | None = None,
    title: str = "",
) -> Answered | None:
    """Send a command to `engine`, by default that of the shown system; if the engine requires a
    confirmation, prompt for the name and send the command again.

    Returns the last reply, or None if the name was not typed. The second request contains the
    values that the prompt showed, and is sent to the same system. If the screen is closed
    meanwhile, the reply is shown as a toast with `title`.
    """
    engine = engine or screen.shown_engine
    reply = await engine.change(command, title)
    if not needs_confirmation(command, reply):
        return reply
    return await _request_with_typed_name(screen, engine, command, reply, title)


async def request_and_show_reply(
    screen: LiveScreen, command: ConfirmableCommand, engine: SystemEngine, title: str
) -> None:
    """Send a command, with the confirmation that the engine requires; show the reply as a toast.

    `engine` is that of the system on which the key was pressed.
    """
    reply = await request_confirmed(screen, command, engine, title)
    if reply is not None:
        show_reply(screen.app, reply, title)


def needs_confirmation(command: ConfirmableCommand, reply: Answered) -> bool:
    """Return whether the engine refused a command because its confirmation must be typed first."""
    return reply.status == "refused" and reply.body_json is not None and command.confirmed is None


def confirmation_in(reply: Answered) -> Confirmation:
    """Return the confirmation in the reply to a command that needs one."""
    return _confirmation_decoder.decode(reply.body_json or "")


async def request_with_preview(screen: LiveScreen, command: Change | Undo) -> Answered | None:
    """Request a preview of a command, prompt for the name, then send the command.

    Returns the last reply, or None if the name was not typed.
    """
    engine = screen.shown_engine
    reply = await engine.request(replace(command, dry_run=True))
    if reply.body_json is None:
        return reply
    return await _request_with_typed_name(screen, engine, command, reply)


async def _request_with_typed_name(
    screen: LiveScreen,
    engine: SystemEngine,
    command: ConfirmableCommand,
    reply: Answered,
    title: str = "",
) -> Answered | None:
    confirmed_command = await prompt_confirmation(screen, command, reply)
    return None if confirmed_command is None else await engine.change(confirmed_command, title)


def confirmation_prompt(confirmation: Confirmation) -> Prompt:
    """Return the dialog in which the name of a confirmation is typed."""
    question, name = confirmation.question, confirmation.name
    sentence = f"{question[:1].upper()}{question[1:]}"
    return Prompt(clean_line(f"{sentence}. Type {name} to confirm"), text_to_type=name)


async def prompt_confirmation(
    screen: LiveScreen, command: ConfirmableCommand, reply: Answered
) -> ConfirmableCommand | None:
    """Prompt for the name, and return the command with the name and the values that the prompt
    showed; None if the name was not typed.

    `reply` contains the `Confirmation`.
    """
    confirmation = confirmation_in(reply)
    typed_name = await screen.app.push_screen_wait(confirmation_prompt(confirmation))
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
