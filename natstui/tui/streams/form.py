"""The form of a stream: new, from a template or file, cloned, or to edit."""

from __future__ import annotations

import json
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.model.assets.fields import Config, text_at, without_server_metadata
from natstui.model.assets.stream_fields import NEW_STREAM_CONFIG
from natstui.model.assets.templates import BUILT_IN_TEMPLATES, template_config
from natstui.model.records.managing import SaveTemplate
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.frame.form.text import FormAsset
from natstui.tui.frame.live import CommandPrompt, ScreenPart, prompt_command
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.pick import PickDialog


class TemplateKeys(ScreenPart):
    """The keys that start a form from a template, and save its configuration as a template."""

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

    def __init__(self, screen: FormScreen) -> None:
        self._screen = screen

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return True for an offered action; for the choice of a template False while a stream is
        edited, and None while a stream is being sent.
        """
        if action != "pick":
            return True
        if self._screen.entries.asset.is_edit:
            return False
        return None if self._screen.sending.is_sending else True

    def action_pick(self) -> None:
        """Prompt for a template, and start the form from it."""
        run_task(self._screen, self._pick_template)

    async def _pick_template(self) -> None:
        templates = self._screen.entries.in_use.templates or BUILT_IN_TEMPLATES
        options = [(template.name, template.help) for template in templates]
        name = await self._screen.app.push_screen_wait(PickDialog("Begin with", options))
        picked_template = next((template for template in templates if template.name == name), None)
        if picked_template is not None:
            await self._screen.build(template_config(picked_template))

    def action_keep(self) -> None:
        """Prompt for a name, and save the current configuration as a template."""
        config_json = json.dumps(without_server_metadata(self._screen.entries.draft.config))

        def command(name: str) -> SaveTemplate | None:
            return SaveTemplate(0, name, config_json) if name else None

        prompt = CommandPrompt(
            "Name of the template", command, title="template", changes_host=True
        )
        prompt_command(self._screen, prompt)


class StreamForm(FormScreen):
    """The form of a stream."""

    BINDINGS: ClassVar[list[BindingType]] = TemplateKeys.BINDINGS

    def __init__(self, asset: FormAsset) -> None:
        super().__init__(asset)
        self.templates = TemplateKeys(self)


def new_stream_asset() -> FormAsset:
    """Return the asset of a form for a new stream."""
    return FormAsset("stream", "", NEW_STREAM_CONFIG, is_edit=False)


def cloned_stream_asset(config_json: str) -> FormAsset:
    """Return the asset of a form that clones a stream."""
    config = without_server_metadata(json.loads(config_json))
    return FormAsset("stream", "", {**config, "name": ""}, is_edit=False)


def edited_stream_asset(config_json: str, created_at_us: int | None) -> FormAsset:
    """Return the asset of a form that edits a stream; its creation time identifies it."""
    config: Config = json.loads(config_json)
    name = text_at(config, "name")
    return FormAsset("stream", name, config, is_edit=True, created_at_us=created_at_us)
