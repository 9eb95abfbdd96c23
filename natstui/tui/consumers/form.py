"""The form of a consumer: new, cloned, or to edit."""

from __future__ import annotations

import json

from textual.suggester import SuggestFromList
from textual.widgets import Input

from natstui.decoding import decoder_of
from natstui.model.assets.consumer_fields import NEW_CONSUMER_CONFIG
from natstui.model.assets.fields import Config, without_server_metadata
from natstui.model.live.state import State
from natstui.model.records.messages import DeliveryPreview, PreviewDelivery
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.frame.form.text import STREAM_FIELD, FormAsset, delivery_text
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.fields import FieldRow
from natstui.values import replace

_decoder = decoder_of(DeliveryPreview)


class ConsumerForm(FormScreen):
    """The form of a consumer."""

    def __init__(self, asset: FormAsset) -> None:
        super().__init__(asset)
        self._previewed_stream_and_start = ("", "")
        """Stream and JSON of the start settings of the last delivery preview."""
        self.first_path = "" if asset.is_edit or not asset.stream else "name"

    async def build(self, base: Config | None = None) -> None:
        """Create the fields again, from the start configuration `base` if given; the field of the
        stream suggests the names of all streams.
        """
        await super().build(base)
        names = sorted(self.state.stream_configurations)
        for row in self.query(FieldRow):
            if row.field is STREAM_FIELD:
                row.query_one(Input).suggester = SuggestFromList(names)

    def put(self, path: str, text: str) -> None:
        """Store the text of a field; for the field of the stream, also the configuration of that
        stream, which limits its consumers.
        """
        if path != STREAM_FIELD.path:
            super().put(path, text)
            return
        stream = self.state.stream_configurations.get(text)
        stream_config = json.loads(stream.config_json) if stream else None
        self.entries.asset = replace(self.entries.asset, stream=text, owner=stream_config)
        if stream_config is not None:
            run_task(self, self.read_names, replaces="names")

    def update_draft(self) -> None:
        """Update the draft; request the first message to deliver if the start settings changed."""
        super().update_draft()
        asset, draft = self.entries.asset, self.entries.draft
        if asset.is_edit or draft.problems:
            return
        keys = ("deliver_policy", "opt_start_seq", "opt_start_time", "filter_subjects")
        start_settings = {key: draft.config[key] for key in keys if key in draft.config}
        stream_and_start = (asset.stream, json.dumps(start_settings))
        if stream_and_start != self._previewed_stream_and_start:
            self._previewed_stream_and_start = stream_and_start
            preview = PreviewDelivery(0, *stream_and_start)
            run_task(self, self._show_delivery, preview, replaces="delivery")

    async def _show_delivery(self, preview: PreviewDelivery) -> None:
        reply = await self.engine.request(preview)
        body = reply.body_json
        note = reply.text if body is None else delivery_text(_decoder.decode(body))
        self.entries.notes = (note,)
        self.update_draft()


def newest_stream(state: State) -> str:
    """Return the name of the newest stream; empty without streams."""
    streams = state.streams.columns
    return max(zip(streams.created_at_us, streams.name, strict=True), default=(0, ""))[1]


def new_consumer_asset(stream: str, stream_json: str | None) -> FormAsset:
    """Return the asset of a form for a new consumer of a stream."""
    owner = json.loads(stream_json) if stream_json else None
    return FormAsset("consumer", stream, NEW_CONSUMER_CONFIG, is_edit=False, owner=owner)


def cloned_consumer_asset(stream: str, stream_json: str | None, config_json: str) -> FormAsset:
    """Return the asset of a form that clones a consumer."""
    owner = json.loads(stream_json) if stream_json else None
    config = without_server_metadata(json.loads(config_json))
    return FormAsset("consumer", stream, {**config, "name": ""}, is_edit=False, owner=owner)


def edited_consumer_asset(
    stream: str, stream_json: str | None, config_json: str, created_at_us: int | None
) -> FormAsset:
    """Return the asset of a form that edits a consumer; its creation time identifies it."""
    owner = json.loads(stream_json) if stream_json else None
    config: Config = json.loads(config_json)
    return FormAsset("consumer", stream, config, True, owner, created_at_us)
