"""The form of a stream: new, from a template or file, cloned, or to edit."""

from __future__ import annotations

import json
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.model.config_field import Config, text_at, without_server_metadata
from natstui.model.manage import SaveTemplate
from natstui.model.stream_spec import NEW_STREAM
from natstui.model.templates import BUILT_IN, started
from natstui.tui.asking import next_command_id
from natstui.tui.form_file import FileForm
from natstui.tui.messages import Asked
from natstui.tui.pick import Pick
from natstui.tui.present.form import Subject
from natstui.tui.prompt import Prompt


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
    def edit(cls, config_json: str) -> StreamForm:
        """Return a form to change a stream."""
        config: Config = json.loads(config_json)
        return cls(Subject("stream", text_at(config, "name"), config, editing=True))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer templates only for a new stream."""
        if action == "template":
            return not self.subject.editing
        return super().check_action(action, parameters)

    def action_template(self) -> None:
        """Begin again from a template."""
        known = self.around.templates or BUILT_IN
        words = [(template.name, template.help) for template in known]

        def begin(name: str | None) -> None:
            found = next((template for template in known if template.name == name), None)
            if found is not None:
                self.begin(started(found))

        self.app.push_screen(Pick("Begin with", words), begin)

    def action_keep(self) -> None:
        """Keep the present configuration as an own template."""
        self.app.push_screen(Prompt("Name of the template"), self._keep)

    def _keep(self, name: str | None) -> None:
        if name:
            config = without_server_metadata(self.draft.config)
            self.post_message(Asked(SaveTemplate(next_command_id(), name, json.dumps(config))))
            self.notify(f"kept as template {name}", markup=False)
