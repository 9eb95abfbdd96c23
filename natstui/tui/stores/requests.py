"""Requests of store screens: repeated pages, and changes of keys and objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from natstui.clean import clean_line
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command
from natstui.model.records.stores import ChangeKey, KeyRow
from natstui.tui.frame.confirmation import FormServer, request_confirmed
from natstui.tui.frame.live import LiveScreen, RepeatedRequest
from natstui.tui.frame.requests import run_task, show_reply
from natstui.tui.kit.pick import CANCEL_OPTION, PickDialog
from natstui.tui.stores.put import PutScreen
from natstui.values import replace

PageT = TypeVar("PageT")


class RepeatedPage(Generic[PageT]):
    """A repeatedly requested page: the newest one, and after an error the previous one with the
    error.
    """

    def __init__(
        self,
        screen: LiveScreen,
        command: Callable[[], Command],
        interval_s: float,
        decoder: msgspec.json.Decoder[PageT],
        show: Callable[[PageT], None] = lambda _: None,
    ) -> None:
        """Create a request that is repeated `interval_s` seconds after each reply; `show` is
        called with each page.
        """
        self._repeated_request = RepeatedRequest(screen, command, interval_s, self._store_reply)
        self._decoder, self._show = decoder, show
        self.page: PageT | None = None
        self.problem = ""
        self.start, self.send_now = self._repeated_request.start, self._repeated_request.send_now
        self.send_if_due = self._repeated_request.send_if_due

    def _store_reply(self, reply: Answered) -> None:
        if reply.status != "done" or reply.body_json is None:
            self.problem = clean_line(reply.text)
            return
        self.problem, self.page = "", self._decoder.decode(reply.body_json)
        self._show(self.page)


def start_change(
    screen: LiveScreen, change: ChangeKey, effect: str, on_change: Callable[[], None]
) -> None:
    """Change a key or object after a prompt that describes the effect.

    `on_change` is called after the change.
    """
    run_task(screen, _change, screen, change, effect, on_change)


async def _change(
    screen: LiveScreen, change: ChangeKey, effect: str, on_change: Callable[[], None]
) -> None:
    verb = change.action.partition("_")[0] if change.of_revision_seq is None else "revert"
    form_server = FormServer(screen)
    run_task(screen, form_server.read)
    title = f"{verb} {clean_line(f'{change.key} of {change.bucket}')}?"
    options = (CANCEL_OPTION, ("do it", effect))
    if await screen.app.push_screen_wait(PickDialog(title, options)) != "do it":
        return
    change = replace(change, decided_on=form_server.confirmation_for(change.key))
    reply = await request_confirmed(screen, change)
    if reply is not None:
        show_reply(screen.app, reply)
        if reply.status == "done":
            on_change()


def change_key(
    screen: LiveScreen,
    bucket: str,
    created_at_us: int | None,
    row: KeyRow,
    action: str,
    on_change: Callable[[], None],
) -> None:
    """Edit, delete or purge the key in `row`, if its revision is still the newest one.

    `created_at_us` is the creation time of the bucket; `on_change` is called after the change.
    """
    if action == "edit-key":
        screen.app.push_screen(PutScreen(bucket, row.key))
        return
    change = ChangeKey(
        0,
        "delete_key" if action == "delete_key" else "purge_key",
        bucket,
        row.key,
        if_revision_seq=row.revision_seq,
        if_stored_at_us=row.created_at_us,
        created_at_us=created_at_us,
    )
    effect = "all revisions of the key are removed for good"
    if action == "delete_key":
        effect = (
            "a delete marker is added; earlier revisions stay, up to the history of the bucket"
        )
    start_change(screen, change, effect, on_change)
