"""The form of a stream: new, from a template or file, cloned, or to edit."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.model.assets.fields import Config, text_at, without_server_metadata
from natstui.model.assets.stream_fields import NEW_STREAM
from natstui.model.assets.templates import BUILT_IN, started
from natstui.model.records.managing import SaveTemplate
from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.frame.form.text import Subject
from natstui.tui.frame.live import LiveScreen, Question, ask
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.pick import Pick


class Templates(ScreenPart):
    """Begins a form with a template, and keeps what was entered as one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+t", "part('templates', 'pick')", "Template", id="form.template", priority=True
        ),
        Binding(
            "ctrl+e",
            "part('templates', 'keep')",
            "Keep as template",
            show=False,
            id="form.keep",
            priority=True,
        ),
    ]

    def __init__(
        self, screen: LiveScreen, entries: Entries, begin: Callable[[Config], Awaitable[None]]
    ) -> None:
        """`begin` shows the form with another configuration below what was typed."""
        self._screen, self._entries, self._begin = screen, entries, begin

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer templates only for a new stream."""
        return action != "pick" or not self._entries.subject.editing

    def action_pick(self) -> None:
        """Begin again from a template."""
        known = self._entries.in_use.templates or BUILT_IN
        words = [(template.name, template.help) for template in known]

        async def begin(name: str | None) -> None:
            found = next((template for template in known if template.name == name), None)
            if found is not None:
                await self._begin(started(found))

        self._screen.app.push_screen(Pick("Begin with", words), begin)

    def action_keep(self) -> None:
        """Keep the present configuration as an own template."""
        config_json = json.dumps(without_server_metadata(self._entries.draft.config))

        def command(name: str) -> SaveTemplate | None:
            return SaveTemplate(0, name, config_json) if name else None

        ask(self._screen, Question("Name of the template", command, title="template"))


class StreamForm(FormScreen):
    """Everything a stream can be."""

    BINDINGS: ClassVar[list[BindingType]] = Templates.BINDINGS

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.templates = Templates(self, self.entries, self.build)


def new_stream() -> Subject:
    """Return what an empty form is about."""
    return Subject("stream", "", NEW_STREAM, editing=False)


def cloned_stream(config_json: str) -> Subject:
    """Return what a form is about for a new stream like another one."""
    config = without_server_metadata(json.loads(config_json))
    return Subject("stream", "", {**config, "name": ""}, editing=False)


def edited_stream(config_json: str, created_at_us: int | None) -> Subject:
    """Return what a form is about that changes the stream made at a time."""
    config: Config = json.loads(config_json)
    name = text_at(config, "name")
    return Subject("stream", name, config, editing=True, created_at_us=created_at_us)
