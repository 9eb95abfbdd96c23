"""A form for something new that begins with a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from natstui.errors import UsageError
from natstui.model.assets.fields import Config
from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.form.text import config_of_file
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.prompt import Prompt

_WHICH_FILE = "JSON, YAML or TOML file to begin with"


class FileToBeginWith(ScreenPart):
    """Asks for a file, again with the reason when it cannot be read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+l",
            "part('file', 'load')",
            "Load file",
            show=False,
            id="form.load",
            priority=True,
        ),
    ]

    def __init__(
        self, screen: DOMNode, entries: Entries, begin: Callable[[Config], Awaitable[None]]
    ) -> None:
        """`begin` shows the form with another configuration below what was typed."""
        self._screen, self._entries, self._begin = screen, entries, begin

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer files only for something new."""
        return not self._entries.subject.editing

    def action_load(self) -> None:
        """Begin again from a file."""
        self._screen.app.push_screen(Prompt(_WHICH_FILE), self._load)

    async def _load(self, name: str | None) -> None:
        if not name:
            return
        try:
            config = config_of_file(name)
        except UsageError as error:
            prompt = Prompt(_WHICH_FILE, name, refused=str(error))
            self._screen.app.push_screen(prompt, self._load)
            return
        await self._begin(config)
