"""Requests of store screens: repeated pages, and changes of keys and objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

import msgspec

from natstui.clean import clean_line
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command
from natstui.model.records.stores import ChangeKey, KeyRow
from natstui.tui.frame.confirmation import OpeningPlace, request_confirmed
from natstui.tui.frame.live import LiveScreen, Renewing
from natstui.tui.frame.requests import run_task, show_reply
from natstui.tui.kit.pick import LEAVE_IT, Pick
from natstui.tui.stores.put import PutScreen

T = TypeVar("T")


class RenewedPage(Generic[T]):
    """Keeps the newest page of repeated requests; after an error the previous one, with the
    reason.
    """

    def __init__(
        self,
        screen: LiveScreen,
        command: Callable[[], Command],
        every_s: float,
        decoder: msgspec.json.Decoder[T],
        show: Callable[[T], None] = lambda _: None,
    ) -> None:
        """Create a request; `show` receives each page."""
        self._renewing = Renewing(screen, command, every_s, self._keep)
        self._decoder, self._show = decoder, show
        self.page: T | None = None
        self.problem = ""
        self.begin, self.ask = self._renewing.begin, self._renewing.ask
        self.keep_up = self._renewing.keep_up

    def _keep(self, reply: Answered) -> None:
        if reply.status != "done" or reply.body_json is None:
            self.problem = clean_line(reply.text)
            return
        self.problem, self.page = "", self._decoder.decode(reply.body_json)
        self._show(self.page)


def start_change(
    screen: LiveScreen, change: ChangeKey, does: str, on_change: Callable[[], None]
) -> None:
    """Prompt before a key or object is changed, and change it; `does` describes the effect.

    `on_change` is called after the change.
    """
    run_task(screen, _change, screen, change, does, on_change)


async def _change(
    screen: LiveScreen, change: ChangeKey, does: str, on_change: Callable[[], None]
) -> None:
    verb = change.action.partition("_")[0] if change.of_revision_seq is None else "revert"
    opening = OpeningPlace(screen)
    run_task(screen, opening.read)
    title = f"{verb} {clean_line(f'{change.key} of {change.bucket}')}?"
    options = (LEAVE_IT, ("do it", does))
    if await screen.app.push_screen_wait(Pick(title, options)) != "do it":
        return
    change = replace(change, decided_on=opening.decision(change.key))
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
    """Edit, delete or purge a key at its shown revision, in the bucket created at that time.

    `on_change` is called after the change.
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
    does = "all revisions of the key are removed for good"
    if action == "delete_key":
        does = "a delete marker is added; earlier revisions stay, up to the history of the bucket"
    start_change(screen, change, does, on_change)
