"""The form of a consumer: new, cloned, or to edit."""

from __future__ import annotations

import json

from natstui.model.config_field import Config
from natstui.model.consumer_spec import NEW_CONSUMER
from natstui.tui.form_screen import FormScreen
from natstui.tui.present.form import Subject


class ConsumerForm(FormScreen):
    """Everything a consumer can be."""

    @classmethod
    def new(cls, stream: str, stream_json: str | None) -> ConsumerForm:
        """Return an empty form for a consumer of a stream."""
        owner = json.loads(stream_json) if stream_json else None
        return cls(Subject("consumer", stream, NEW_CONSUMER, editing=False, owner=owner))

    @classmethod
    def edit(cls, stream: str, stream_json: str | None, config_json: str) -> ConsumerForm:
        """Return a form to change a consumer."""
        owner = json.loads(stream_json) if stream_json else None
        config: Config = json.loads(config_json)
        return cls(Subject("consumer", stream, config, editing=True, owner=owner))
