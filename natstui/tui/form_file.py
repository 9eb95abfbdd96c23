"""A form that can begin with a file of the user."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.errors import UsageError
from natstui.model.config_field import Config, without_server_metadata
from natstui.paths import user_path
from natstui.tui.form_screen import FormScreen
from natstui.tui.prompt import Prompt


def config_of_file(name: str) -> Config:
    """Return the configuration in a JSON or YAML file, also in that of a whole INFO.

    Raises UsageError for a file that cannot be read or holds none.
    """
    # Imported here: it is a tenth of the start, for what few do.
    import yaml

    try:
        loaded = yaml.safe_load(user_path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{name} cannot be read: {error}") from error
    config = loaded.get("config", loaded) if isinstance(loaded, dict) else None
    if not isinstance(config, dict):
        raise UsageError(f"{name} holds no configuration")
    return without_server_metadata({"name": config.get("durable_name") or "", **config})


class FileForm(FormScreen):
    """A form for something new that may begin with a file."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+l", "load", "Load file", show=False, id="form.load", priority=True),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer files only for something new."""
        if action == "load":
            return not self.subject.editing
        return super().check_action(action, parameters)

    def action_load(self) -> None:
        """Begin again from a JSON or YAML file."""
        self.app.push_screen(Prompt("JSON or YAML file to begin with"), self._load)

    def _load(self, name: str | None) -> None:
        if not name:
            return
        try:
            self.begin(config_of_file(name))
        except UsageError as error:
            self.notify(str(error), severity="error", markup=False)

    def begin(self, config: Config) -> None:
        """Begin again from another configuration."""
        self.subject = replace(self.subject, base=config)
        self.texts = {}
        self.run_worker(self.build(), exclusive=True)
