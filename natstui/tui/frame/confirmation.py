"""A change that the engine refuses until its confirmation is typed: shown, and sent again."""

from __future__ import annotations

from dataclasses import replace

from natstui.decoding import decoder_of
from natstui.model.records.benchmark import StartBenchmark
from natstui.model.records.managing import Change, Confirmation, Undo
from natstui.model.records.messages import Answered, PublishMessage, PullNext, RequestReply
from natstui.model.records.stores import ChangeKey, LinkObject
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import SystemEngine
from natstui.tui.kit.prompt import Prompt

Confirmable = (
    Change
    | Undo
    | ChangeKey
    | LinkObject
    | PublishMessage
    | PullNext
    | RequestReply
    | StartBenchmark
)

_confirmation = decoder_of(Confirmation)


async def request_confirmed(screen: LiveScreen, command: Confirmable) -> Answered | None:
    """Return the reply to a command, sent again with the name typed where the engine wants it.

    The second request carries what was shown, to the same system. None: the name was not typed.
    """
    engine = screen.engine
    reply = await engine.request(command)
    if reply.status != "refused" or reply.body_json is None or command.confirmed is not None:
        return reply
    return await _request_typed(screen, engine, command, reply.body_json)


async def request_shown(screen: LiveScreen, command: Change | Undo) -> Answered | None:
    """Return the reply to a command whose confirmation is always shown first, and typed."""
    engine = screen.engine
    reply = await engine.request(replace(command, dry_run=True))
    if reply.body_json is None:
        return reply
    return await _request_typed(screen, engine, command, reply.body_json)


async def _request_typed(
    screen: LiveScreen, engine: SystemEngine, command: Confirmable, confirmation_json: str
) -> Answered | None:
    shown = _confirmation.decode(confirmation_json)
    question = f"{shown.question[:1].upper()}{shown.question[1:]}"
    prompt = Prompt(f"{question}. Type {shown.name} to confirm", word=shown.name)
    typed = await screen.app.push_screen_wait(prompt)
    if typed is None:
        return None
    confirmed = replace(command, confirmed=typed)
    if isinstance(confirmed, Change | Undo):
        confirmed = replace(
            confirmed, previewed_msgs=shown.most_msgs, previewed_last_seq=shown.last_seq
        )
    if isinstance(confirmed, Change):
        confirmed = replace(confirmed, created_at_us=shown.created_at_us, place=shown.place)
    if isinstance(confirmed, StartBenchmark):
        confirmed = replace(confirmed, decided_on=shown)
    return await engine.request(confirmed)
