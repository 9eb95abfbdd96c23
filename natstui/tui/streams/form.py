"""The form of a stream: new, from a template or file, cloned, or to edit."""

from __future__ import annotations

import json
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.model.assets.fields import Config, text_at, without_server_metadata
from natstui.model.assets.stream_fields import NEW_STREAM
from natstui.model.assets.templates import BUILT_IN, started
from natstui.model.records.managing import SaveTemplate
from natstui.tui.frame.form.screen import FileForm
from natstui.tui.frame.form.text import Subject
from natstui.tui.frame.live import Question, ask
from natstui.tui.kit.pick import Pick


class StreamForm(FileForm):
    """Everything a stream can be."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "template", "Template", id="form.template", priority=True),
        Binding("ctrl+e", "keep", "Keep as template", show=False, id="form.keep", priority=True),
    ]

    @classmethod
    def new(cls) -> StreamForm:
        """Return an empty form."""
        return cls(Subject("stream", "", NEW_STREAM, editing=False))

    @classmethod
    def clone(cls, config_json: str) -> StreamForm:
        """Return a form for a new stream like another one."""
        config = without_server_metadata(json.loads(config_json))
        return cls(Subject("stream", "", {**config, "name": ""}, editing=False))

    @classmethod
    def edit(cls, config_json: str, created_at_us: int | None) -> StreamForm:
        """Return a form to change the stream that was made at a time."""
        config: Config = json.loads(config_json)
        name = text_at(config, "name")
        return cls(Subject("stream", name, config, editing=True, created_at_us=created_at_us))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer templates only for a new stream."""
        if action == "template":
            return not self.subject.editing
        return super().check_action(action, parameters)

    def action_template(self) -> None:
        """Begin again from a template."""
        known = self.in_use.templates or BUILT_IN
        words = [(template.name, template.help) for template in known]

        async def begin(name: str | None) -> None:
            found = next((template for template in known if template.name == name), None)
            if found is not None:
                await self.begin(started(found))

        self.app.push_screen(Pick("Begin with", words), begin)

    def action_keep(self) -> None:
        """Keep the present configuration as an own template."""
        config_json = json.dumps(without_server_metadata(self.draft.config))

        def command(number: int, name: str) -> SaveTemplate | None:
            return SaveTemplate(number, name, config_json) if name else None

        ask(self, Question("Name of the template", command, title="template"))
