"""A change that the engine refuses until a name is typed, asked about and sent again."""

from __future__ import annotations

import json
from dataclasses import replace

from natstui.model.records.messages import Answered, PublishMessage, RequestReply
from natstui.model.records.stores import ChangeKey
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.prompt import Prompt

Confirmable = ChangeKey | PublishMessage | RequestReply


async def request_confirmed(screen: LiveScreen, command: Confirmable) -> Answered | None:
    """Send a command, again with the name typed that a refusal wants; None: it was not typed."""
    reply = await screen.engine.request(command)
    if reply.status != "refused" or reply.body_json is None or command.confirmed is not None:
        return reply
    name = str(json.loads(reply.body_json)["type"])
    question = reply.text.removeprefix("not confirmed: ")
    typed = await screen.app.push_screen_wait(Prompt(question, word=name))
    if typed is None:
        return None
    return await screen.engine.request(replace(command, confirmed=typed))
