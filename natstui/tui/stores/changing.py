"""Changes of a key or a file: confirmed where they are final, and their replies shown."""

from __future__ import annotations

from collections.abc import Callable

from natstui.clean import clean_line
from natstui.model.records.stores import ChangeKey
from natstui.tui.frame.confirmation import request_confirmed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task, show_reply
from natstui.tui.kit.pick import Pick


def start_change(
    screen: LiveScreen, change: ChangeKey, does: str, changed: Callable[[], None]
) -> None:
    """Ask whether to change a key or file, and do it; `does` is a clause about it.

    `changed` is called when it is done.
    """
    run_task(screen, _change, screen, change, does, changed)


async def _change(
    screen: LiveScreen, change: ChangeKey, does: str, changed: Callable[[], None]
) -> None:
    verb = change.action.partition("_")[0] if change.of_revision_seq is None else "revert"
    question = f"{verb} {clean_line(f'{change.key} of {change.bucket}')}?"
    options = (("do it", does), ("leave it", "nothing is changed"))
    if await screen.app.push_screen_wait(Pick(question, options)) != "do it":
        return
    reply = await request_confirmed(screen, change)
    if reply is not None:
        show_reply(screen.app, reply)
        if reply.status == "done":
            changed()
