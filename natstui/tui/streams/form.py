"""The form of a stream: new, from a template or file, cloned, or to edit."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.model.assets.fields import Config, text_at, without_server_metadata
from natstui.model.assets.stream_fields import NEW_STREAM
from natstui.model.assets.templates import BUILT_IN, template_config
from natstui.model.records.managing import SaveTemplate
from natstui.tui.frame.form.screen import FormScreen, Sending
from natstui.tui.frame.form.text import Entries, Subject
from natstui.tui.frame.live import LiveScreen, Question, ScreenPart, ask
from natstui.tui.kit.pick import Pick


class Templates(ScreenPart):
    """Starts a form from a template, and saves its configuration as one."""

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
        self,
        screen: LiveScreen,
        entries: Entries,
        sending: Sending,
        start_from: Callable[[Config], Awaitable[None]],
    ) -> None:
        """Create for a form; `start_from` replaces its start configuration below typed texts."""
        self._screen, self._entries, self._begin = screen, entries, start_from
        self._sending = sending

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer templates only for a new stream, and not while that is sent."""
        if action != "pick":
            return True
        if self._entries.subject.editing:
            return False
        return None if self._sending.is_sending else True

    def action_pick(self) -> None:
        """Pick a template, and start from it."""
        templates = self._entries.in_use.templates or BUILT_IN
        options = [(template.name, template.help) for template in templates]

        async def begin(name: str | None) -> None:
            found = next((template for template in templates if template.name == name), None)
            if found is not None:
                await self._begin(template_config(found))

        self._screen.app.push_screen(Pick("Begin with", options), begin)

    def action_keep(self) -> None:
        """Save the current configuration as an own template."""
        config_json = json.dumps(without_server_metadata(self._entries.draft.config))

        def command(name: str) -> SaveTemplate | None:
            return SaveTemplate(0, name, config_json) if name else None

        question = Question("Name of the template", command, title="template", changes_host=True)
        ask(self._screen, question)


class StreamForm(FormScreen):
    """The form of a stream."""

    BINDINGS: ClassVar[list[BindingType]] = Templates.BINDINGS

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.templates = Templates(self, self.entries, self.sending, self.build)


def new_stream() -> Subject:
    """Return the subject of an empty form."""
    return Subject("stream", "", NEW_STREAM, editing=False)


def cloned_stream(config_json: str) -> Subject:
    """Return the subject of a form that clones a stream."""
    config = without_server_metadata(json.loads(config_json))
    return Subject("stream", "", {**config, "name": ""}, editing=False)


def edited_stream(config_json: str, created_at_us: int | None) -> Subject:
    """Return the subject of a form that edits a stream; its creation time identifies it."""
    config: Config = json.loads(config_json)
    name = text_at(config, "name")
    return Subject("stream", name, config, editing=True, created_at_us=created_at_us)
