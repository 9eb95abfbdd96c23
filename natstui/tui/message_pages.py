"""Pages of stored messages, newest first; no consumer is made or moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import msgspec
from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from natstui.model.stored import BrowseMessages, MessagePage, StoredMessage
from natstui.tui.asking import answer_to, next_command_id
from natstui.tui.live import LiveScreen
from natstui.tui.messages import Asked
from natstui.tui.present.messages import message_line, page_text
from natstui.tui.screens.message import MessageScreen
from natstui.tui.text import safe

_page = msgspec.json.Decoder(MessagePage)


class MessagePages(LiveScreen):
    """Reads and lists one page; subclasses say where to go."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket,pageup", "older", "Older", key_display="[", id="msg.older"),
        Binding("right_square_bracket", "newer", "Newer", key_display="]", id="msg.newer"),
        Binding("g", "newest", "Newest", id="msg.newest"),
        Binding("G", "oldest", "Oldest", show=False, id="msg.oldest"),
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="msg.refresh"),
    ]
    DEFAULT_CSS = """
    MessagePages OptionList {
        height: 1fr; padding: 0; border: none !important;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    caption = getters.query_one("#caption", Static)
    list = getters.query_one(OptionList)

    def __init__(self, stream: str, consumer: str | None = None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self.asked = BrowseMessages(-1, stream)
        self.page: MessagePage | None = None
        self._waiting = True

    def body(self) -> Iterable[Widget]:
        """Caption and list."""
        yield Static(id="caption", markup=False)
        yield OptionList()

    def on_mount(self) -> None:
        """Read the newest page."""
        self.list.focus()
        self.read()

    def read(self, **changes: object) -> None:
        """Ask for another page, the filter kept."""
        fresh = BrowseMessages(-1, self.stream, filter_subject=self.asked.filter_subject)
        number = next_command_id()
        self.asked = replace(fresh, command_id=number, **changes)  # type: ignore[arg-type]
        self.caption.update(safe(f"{self.stream}  ·  reading …", "$text-muted"))
        self._waiting = True
        self.post_message(Asked(self.asked))

    def refresh_state(self) -> None:
        """Take answers when they come."""
        answer = answer_to(self.state, self.asked.command_id)
        if answer is not None and self._waiting:
            self._waiting = False
            if answer.body_json is None:
                self.caption.update(safe(answer.text, "$text-error"))
            else:
                self._draw(_page.decode(answer.body_json))

    def _draw(self, page: MessagePage) -> None:
        self.page = page
        self.list.clear_options()
        self.list.add_options([Option(message_line(message)) for message in self.shown])
        if page.messages:
            forwards = self.asked.newer or page.sought_seq is not None
            self.list.highlighted = len(page.messages) - 1 if forwards else 0
        self.caption.update(safe(page_text(page, self._what())))

    def _what(self) -> str:
        asked = self.asked
        parts = ["last of each subject"] if asked.last_per_subject else ["newest first"]
        parts += [f"/{asked.filter_subject}"] if asked.filter_subject else []
        parts += [f"{asked.jump} of {asked.consumer}".replace("_", " ")] if asked.jump else []
        parts += [f"since {asked.from_time}"] if asked.from_time else []
        return "  ·  ".join(parts)

    @property
    def shown(self) -> tuple[StoredMessage, ...]:
        """The messages as listed: newest first."""
        return self.page.messages[::-1] if self.page else ()

    @property
    def message(self) -> StoredMessage | None:
        """The message under the cursor."""
        at = self.list.highlighted
        return self.shown[at] if at is not None and at < len(self.shown) else None

    @on(OptionList.OptionSelected)
    def _open(self) -> None:
        if self.message is not None and self.message.stream_seq is not None:
            self.app.push_screen(MessageScreen(self.stream, self.message.stream_seq))

    def action_ask(self) -> None:
        """Read the same page again."""
        number = next_command_id()
        self.asked = replace(self.asked, command_id=number)
        self._waiting = True
        self.post_message(Asked(self.asked))

    def action_older(self) -> None:
        """Read the page before."""
        if self.page is not None and self.page.older_seq is not None:
            self.read(from_seq=self.page.older_seq)

    def action_newer(self) -> None:
        """Read the page after."""
        if self.page is not None and self.page.newer_seq is not None:
            self.read(from_seq=self.page.newer_seq, newer=True)

    def action_newest(self) -> None:
        """Read the newest page."""
        self.read()

    def action_oldest(self) -> None:
        """Read the oldest page."""
        self.read(newer=True)
