"""The form of a consumer: new, cloned, or to edit."""

from __future__ import annotations

import json

import msgspec

from natstui.model.assets.consumer_fields import NEW_CONSUMER
from natstui.model.assets.fields import Config, without_server_metadata
from natstui.model.records.messages import DeliveryPreview, PreviewDelivery
from natstui.tui.frame.form.screen import FileForm
from natstui.tui.frame.form.text import Subject, delivery_text
from natstui.tui.frame.messages import Asked, answer_to, next_command_id

_decoder = msgspec.json.Decoder(DeliveryPreview)


class ConsumerForm(FileForm):
    """Everything a consumer can be."""

    _preview_id = -1
    _previewed = ""

    def redraft(self) -> None:
        """Ask what it would deliver whenever that may have changed."""
        super().redraft()
        if self.subject.editing or self.draft.problems:
            return
        keys = ("deliver_policy", "opt_start_seq", "opt_start_time", "filter_subjects")
        starts = {key: self.draft.config[key] for key in keys if key in self.draft.config}
        wanted = json.dumps(starts)
        if wanted != self._previewed:
            self._previewed = wanted
            self._preview_id = next_command_id()
            self.app.post_message(
                Asked(PreviewDelivery(self._preview_id, self.subject.stream, wanted))
            )

    def refresh_state(self) -> None:
        """Take answers when they come."""
        super().refresh_state()
        if answer := answer_to(self.state, self._preview_id):
            self._preview_id = -1
            if answer.body_json is None:
                self.notes = (answer.text,)
            else:
                self.notes = (delivery_text(_decoder.decode(answer.body_json)),)
            self.redraft()

    @classmethod
    def new(cls, stream: str, stream_json: str | None) -> ConsumerForm:
        """Return an empty form for a consumer of a stream."""
        owner = json.loads(stream_json) if stream_json else None
        return cls(Subject("consumer", stream, NEW_CONSUMER, editing=False, owner=owner))

    @classmethod
    def clone(cls, stream: str, stream_json: str | None, config_json: str) -> ConsumerForm:
        """Return a form for a new consumer like another one."""
        owner = json.loads(stream_json) if stream_json else None
        config = without_server_metadata(json.loads(config_json))
        return cls(Subject("consumer", stream, {**config, "name": ""}, editing=False, owner=owner))

    @classmethod
    def edit(
        cls, stream: str, stream_json: str | None, config_json: str, created_at_us: int | None
    ) -> ConsumerForm:
        """Return a form to change the consumer that was made at a time."""
        owner = json.loads(stream_json) if stream_json else None
        config: Config = json.loads(config_json)
        return cls(Subject("consumer", stream, config, True, owner, created_at_us))
