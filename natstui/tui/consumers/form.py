"""The form of a consumer: new, cloned, or to edit."""

from __future__ import annotations

import json

from natstui.decoding import decoder_of
from natstui.model.assets.consumer_fields import NEW_CONSUMER
from natstui.model.assets.fields import Config, without_server_metadata
from natstui.model.records.messages import DeliveryPreview, PreviewDelivery
from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.frame.form.text import Subject, delivery_text
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, answer_to, next_command_id

_decoder = decoder_of(DeliveryPreview)


class FirstDelivery:
    """Asks the engine what a planned consumer would deliver first, and notes it in the form."""

    def __init__(self, screen: LiveScreen, entries: Entries) -> None:
        self._screen, self._entries = screen, entries
        self._asked_id = -1
        self._asked_about = ""

    def ask(self) -> None:
        """Ask when that may have changed since it was asked last."""
        subject, draft = self._entries.subject, self._entries.draft
        if subject.editing or draft.problems:
            return
        keys = ("deliver_policy", "opt_start_seq", "opt_start_time", "filter_subjects")
        starts = {key: draft.config[key] for key in keys if key in draft.config}
        wanted = json.dumps(starts)
        if wanted != self._asked_about:
            self._asked_about = wanted
            self._asked_id = next_command_id()
            asked = PreviewDelivery(self._asked_id, subject.stream, wanted)
            self._screen.app.post_message(Asked(asked))

    def note_answer(self) -> bool:
        """Note the answer when it has come; return whether it has."""
        answer = answer_to(self._screen.state, self._asked_id)
        if answer is None:
            return False
        self._asked_id = -1
        body = answer.body_json
        note = answer.text if body is None else delivery_text(_decoder.decode(body))
        self._entries.notes = (note,)
        return True


class ConsumerForm(FormScreen):
    """Everything a consumer can be."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._first_delivery = FirstDelivery(self, self.entries)

    def redraft(self) -> None:
        """Ask also what it would deliver."""
        super().redraft()
        self._first_delivery.ask()

    def refresh_state(self) -> None:
        """Take answers when they come."""
        super().refresh_state()
        if self._first_delivery.note_answer():
            self.redraft()


def new_consumer(stream: str, stream_json: str | None) -> Subject:
    """Return what an empty form is about for a consumer of a stream."""
    owner = json.loads(stream_json) if stream_json else None
    return Subject("consumer", stream, NEW_CONSUMER, editing=False, owner=owner)


def cloned_consumer(stream: str, stream_json: str | None, config_json: str) -> Subject:
    """Return what a form is about for a new consumer like another one."""
    owner = json.loads(stream_json) if stream_json else None
    config = without_server_metadata(json.loads(config_json))
    return Subject("consumer", stream, {**config, "name": ""}, editing=False, owner=owner)


def edited_consumer(
    stream: str, stream_json: str | None, config_json: str, created_at_us: int | None
) -> Subject:
    """Return what a form is about that changes the consumer made at a time."""
    owner = json.loads(stream_json) if stream_json else None
    config: Config = json.loads(config_json)
    return Subject("consumer", stream, config, True, owner, created_at_us)
