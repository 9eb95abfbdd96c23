"""Computes the configuration that the typed texts of a form describe, with its errors and
effects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from textual.content import Content

from natstui.asset_file import read_asset_file
from natstui.model.assets.consumer_fields import CONSUMER_FIELD_BY_PATH
from natstui.model.assets.consumer_rules import consumer_problems, consumer_warnings
from natstui.model.assets.defaults import normalize_consumer
from natstui.model.assets.differences import AssetKind, differences, fields_of, with_field
from natstui.model.assets.fields import (
    Config,
    Field,
    read,
    read_field,
    text_at,
    with_thresholds_of,
)
from natstui.model.assets.meaning import behaviour_text, size_estimate_text
from natstui.model.assets.rules import NamesInUse, Problem, newer_server_text
from natstui.model.assets.stream_rules import stream_problems, stream_warnings
from natstui.model.assets.text import format_field, parse_field
from natstui.model.natscli.commands import consumer_command, stream_command
from natstui.model.records.messages import DeliveryPreview
from natstui.tui.kit.text import safe, safe_lines
from natstui.units import counted, parse_bytes, parse_count, parse_moment
from natstui.values import replace


class FormAsset(Struct, frozen=True):
    """The stream or consumer that a form creates or edits."""

    kind: AssetKind
    stream: str
    base: Mapping[str, object]
    """The start configuration: a template, or the configuration to edit."""
    is_edit: bool
    owner: Mapping[str, object] | None = None
    """The configuration of the consumer's stream."""
    created_at_us: int | None = None
    """Creation time of the stream or consumer to edit."""


class FormDraft(Struct, frozen=True):
    """The configuration that the texts in a form describe, with its errors and warnings."""

    config: Config
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    command: str
    changes: tuple[tuple[str, str], ...]
    """The changed lines of an edit, each with the reason why it is refused, else an empty text."""
    notes: tuple[str, ...] = ()
    """Sentences to show that are no warnings."""


STREAM_FIELD = Field(
    "stream", "Stream", "text", "Consumer",
    "The stream to consume; the right arrow completes a name.",
)  # fmt: skip
"""Field for the stream of a new consumer; it is not part of the configuration."""


def form_fields(asset: FormAsset) -> tuple[Field, ...]:
    """Return the fields of a form; durable is a yes/no field, and the form of a new consumer has
    a field for the stream.
    """
    stream_fields = (STREAM_FIELD,) if asset.kind == "consumer" and not asset.is_edit else ()
    return stream_fields + tuple(
        replace(field, kind="switch", default=True) if field.path == "durable_name" else field
        for field in fields_of(asset.kind)
    )


def start_text(asset: FormAsset, field: Field) -> str:
    """Return the text of a field before anything is typed."""
    if field is STREAM_FIELD:
        return asset.stream
    if field.path == "durable_name":
        return "yes" if "durable_name" in asset.base else "no"
    value = read_field(asset.base, field)
    if field.path == "filter_subjects" and value is None:
        value = [text_at(asset.base, "filter_subject")]
        value = value if value[0] else None
    return format_field(field, value)


def start_text_at(asset: FormAsset, path: str) -> str | None:
    """Return the start text of the field with a path; None without such a field."""
    return next(
        (start_text(asset, field) for field in form_fields(asset) if field.path == path), None
    )


def lock_reason(asset: FormAsset, field: Field, api_level: int | None) -> str | None:
    """Return the reason why a field cannot be changed; None if it can be changed."""
    if api_level is not None and field.needed_api_level > api_level:
        return newer_server_text(field)
    if asset.is_edit and not (field.path == "mirror" and read(asset.base, "mirror")):
        return field.fixed_reason
    return None


def build_draft(
    asset: FormAsset,
    texts: Mapping[str, str],
    in_use: NamesInUse,
    estimate: str = "",
    notes: Sequence[str] = (),
) -> FormDraft:
    """Return the draft for a form with the typed `texts`, by field path; `notes` are sentences to
    add to its notes.
    """
    config, problems = _parse_config(asset, texts)
    all_problems = list(problems)
    wrong_paths = {problem.path for problem in problems}
    config_problems = _find_problems(asset, config, in_use.api_level)
    all_problems += [problem for problem in config_problems if problem.path not in wrong_paths]
    return FormDraft(
        config,
        tuple(all_problems),
        _find_warnings(asset, config, in_use),
        _nats_command(asset, config),
        _changes_and_refusals(asset, config),
        (*_describe_size_estimate(asset, config, estimate), *notes),
    )


def _parse_config(asset: FormAsset, texts: Mapping[str, str]) -> tuple[Config, list[Problem]]:
    config: Config = dict(asset.base)
    problems = []
    for field in form_fields(asset):
        if field.path not in texts or field.path == "durable_name":
            continue
        try:
            value = parse_field(field, texts[field.path])
            if field.path == "metadata":
                value = with_thresholds_of(config, value)
            config = with_field(config, field, value)
        except ValueError as error:
            problems.append(Problem(field.path, str(error)))
    if asset.kind == "consumer" and not asset.is_edit:
        is_durable = texts.get("durable_name", start_text(asset, _DURABLE_FIELD)) == "yes"
        name = text_at(config, "name")
        # Without a name, the preview still shows a durable consumer.
        config = with_field(
            config, _DURABLE_FIELD, (name or _NAME_PLACEHOLDER) if is_durable else None
        )
        if is_durable and not name:
            text = f"a durable consumer needs a name; {_ephemeral_text(asset, config)}"
            problems.append(Problem("name", text))
    return config, problems


def _ephemeral_text(asset: FormAsset, config: Config) -> str:
    """Return the sentence that the consumer is ephemeral without Durable, and when the server
    deletes it.
    """
    consumer_limits = read(asset.owner or {}, "consumer_limits")
    config_without_durable = {
        key: value for key, value in config.items() if key != _DURABLE_FIELD.path
    }
    normalized_config = normalize_consumer(
        config_without_durable, consumer_limits if isinstance(consumer_limits, Mapping) else None
    )
    field = CONSUMER_FIELD_BY_PATH["inactive_threshold"]
    inactive_time = format_field(field, read(normalized_config, field.path))
    return f"with Durable: no it is ephemeral: deleted after {inactive_time} without a client"


_DURABLE_FIELD = Field("durable_name", "Durable", "text", "Consumer", "")
_NAME_PLACEHOLDER = "NAME"
"""Placeholder in the preview for a name that is not typed yet."""


def _find_problems(asset: FormAsset, config: Config, api_level: int | None) -> Sequence[Problem]:
    current_config = asset.base if asset.is_edit else None
    if asset.kind == "stream":
        return stream_problems(config, api_level, config_before=current_config)
    if asset.owner is None and not asset.is_edit:
        problem_text = f"there is no stream {asset.stream}" if asset.stream else "choose a stream"
        return (Problem(STREAM_FIELD.path, problem_text),)
    return consumer_problems(config, asset.owner, api_level, config_before=current_config)


def _find_warnings(asset: FormAsset, config: Config, in_use: NamesInUse) -> tuple[str, ...]:
    if asset.kind == "stream":
        filters_in_use = [
            subject_filter
            for filters in in_use.consumer_filters.values()
            for subject_filter in filters
        ]
        return stream_warnings(config, in_use, filters_in_use)
    consumer_name = text_at(config, "name")
    filters_by_other_consumer = {
        name: filters for name, filters in in_use.consumer_filters.items() if name != consumer_name
    }
    return consumer_warnings(config, asset.owner or {}, filters_by_other_consumer)


def _describe_size_estimate(asset: FormAsset, config: Config, estimate: str) -> tuple[str, ...]:
    """Return the sentence about the space that an estimate such as `1M x 1KB` needs, or about an
    error in it; empty without an estimate.
    """
    msgs_text, separator, size_text = estimate.partition("x")
    if asset.kind != "stream" or not separator:
        return ()
    try:
        return (size_estimate_text(config, parse_count(msgs_text), parse_bytes(size_text)),)
    except ValueError as error:
        return (f"Estimate: {error}",)


def _nats_command(asset: FormAsset, config: Config) -> str:
    base = asset.base if asset.is_edit else None
    if asset.kind == "stream":
        return stream_command(config, base)
    return consumer_command(asset.stream, config, base)


def _changes_and_refusals(asset: FormAsset, config: Config) -> tuple[tuple[str, str], ...]:
    if not asset.is_edit:
        return ()
    return tuple(
        (
            f"{difference.label}: {difference.before or 'unset'} → {difference.after or 'unset'}",
            difference.refused or "",
        )
        for difference in differences(asset.kind, asset.base, config)
    )


def config_text(config: Mapping[str, object]) -> str:
    """Return a configuration as indented JSON."""
    return json.dumps(config, indent=2, ensure_ascii=False)


def delivery_text(preview: DeliveryPreview) -> str:
    """Return the sentence about the messages that a new consumer would deliver."""
    if preview.first is None:
        return "would deliver none of the stored messages"
    first_message = preview.first
    pending_text = (
        "" if preview.pending_msgs is None else f", {preview.pending_msgs:,} pending from there"
    )
    message_text = f"message {first_message.stream_seq} ({first_message.subject})"
    return f"would deliver {message_text} first{pending_text}"


class FormKeys(NamedTuple):
    """The texts of the keys that the sentences of a form name."""

    send: str
    preview: str


def caption_text(
    asset: FormAsset,
    draft: FormDraft,
    keys: FormKeys,
    sentence: str,
    style_name: str = "",
    *,
    is_narrow: bool,
) -> Content:
    """Return the line above a form: what it creates or edits, then `sentence`, or whether it can
    be sent.
    """
    verb = "Edit" if asset.is_edit else "New"
    name = text_at(draft.config, "name")
    stream_text = f" on {asset.stream}" if asset.kind == "consumer" else ""
    parts = [f"{verb} {asset.kind} {name}{stream_text}".strip()]
    count = len(draft.problems)
    status = f"ready: {keys.send} sends it"
    if count:
        status = draft.problems[0].text if count == 1 else f"{count} to correct"
    parts.append(sentence or status)
    warnings_count = len(draft.warnings)
    if warnings_count and not sentence and is_narrow:
        parts.append(f"{counted(warnings_count, 'warning')}: {keys.preview}")
    style_name = style_name or ("error" if count else "warn" if warnings_count else "")
    return safe("  ·  ".join(parts), style_name)


def preview_content(
    asset: FormAsset, draft: FormDraft, deletion_lines: Sequence[str] = ()
) -> Content:
    """Return the preview of a form; `deletion_lines` name what the change deletes for good."""
    parts: list[Content] = []
    for problem in draft.problems:
        parts.append(safe(f"✗ {problem.text}", "error"))
    for line in deletion_lines:
        parts.append(safe(f"✗ {line}", "error"))
    for warning in draft.warnings:
        parts.append(safe(f"! {warning}", "warn"))
    for note in draft.notes:
        parts.append(safe(note, "accent"))
    for text, reason in draft.changes:
        parts.append(safe(text, "error" if reason else "ok"))
        parts += [safe(f"   refused: {reason}", "error")] if reason else []
    if asset.is_edit and not draft.changes:
        parts.append(safe("nothing is changed yet", "dim"))
    meaning = behaviour_text(asset.kind, asset.stream, draft.config)
    parts += [
        *([Content()] if parts else []),
        safe(meaning, "strong"),
        Content(),
        safe("The same with the nats command:", "dim"),
        safe(draft.command),
        Content(),
        safe("What will be sent:", "dim"),
        safe_lines(config_text(draft.config)),
    ]
    return Content("\n").join(parts)


def conflict_text(
    asset: FormAsset, current_config: Mapping[str, object], keys: FormKeys
) -> Content:
    """Return the text about what somebody else changed while the form was open."""
    parts = [
        safe(
            "The configuration was changed by somebody else while this form was open; nothing "
            "was sent.",
            "error",
        ),
        safe("Your changes are kept and now apply to the new configuration."),
        safe(f"{keys.preview} shows the form."),
        Content(),
    ]
    for difference in differences(asset.kind, asset.base, current_config):
        parts.append(safe(difference.label, "strong"))
        parts.append(safe(f"   when you opened the form: {difference.before or 'unset'}"))
        parts.append(safe(f"   now:                {difference.after or 'unset'}", "warn"))
    return Content("\n").join(parts)


def config_of_file(name: str, kind: AssetKind) -> Config:
    """Return the start configuration in a file; raises UsageError if the file is not valid."""
    config = read_asset_file(name, kind)
    return {"name": config.get("durable_name") or "", **config}


class FormEntries:
    """The typed texts of a form, kept when the start configuration is replaced."""

    def __init__(self, asset: FormAsset) -> None:
        self.asset = asset
        self.texts: dict[str, str] = {}
        """Typed texts by path; a field with its start text has no entry."""
        self._absolute_text_by_path: dict[str, str] = {}
        """Typed texts by path, with relative times replaced by absolute ones."""
        self.estimate = ""
        self.in_use = NamesInUse()
        self.notes: tuple[str, ...] = ()
        self.draft = build_draft(asset, {}, self.in_use)
        """The draft that `update_draft` computed last."""

    @property
    def name(self) -> str:
        """Return the name that the stream or consumer will have."""
        return text_at(self.draft.config, "name")

    def text_of(self, field: Field) -> str:
        """Return the current text of a field."""
        return self.texts.get(field.path, start_text(self.asset, field))

    def is_changed(self, field: Field) -> bool:
        """Return whether the text of a field differs from its start text."""
        unchanged_text = start_text(self.asset, field) if field.path else ""
        return self.texts.get(field.path, unchanged_text) != unchanged_text

    def put(self, path: str, text: str) -> None:
        """Store the text typed into a field; an empty path is the size estimate."""
        if path == "":
            self.estimate = text
        elif text == start_text_at(self.asset, path):
            self.texts.pop(path, None)
            self._absolute_text_by_path.pop(path, None)
        elif self.texts.get(path) != text:
            self.texts[path] = text
            self._absolute_text_by_path[path] = _make_times_absolute(self.asset, path, text)

    def start_from(self, base: Mapping[str, object]) -> None:
        """Replace the configuration that the form starts from; typed texts are kept."""
        self.asset = replace(self.asset, base=base)

    def continue_from(self, asset: FormAsset, sent_texts: Mapping[str, str]) -> None:
        """Replace the start configuration by the stored one; only texts typed since sending are
        kept.
        """
        # A field that was reset since then has no text, but differs from the sent text.
        texts = {path: start_text_at(self.asset, path) or "" for path in sent_texts}
        texts |= self.texts
        self.asset = asset
        self.texts = {
            path: text
            for path, text in texts.items()
            if text not in (sent_texts.get(path), start_text_at(asset, path))
        }

    def update_draft(self) -> None:
        """Compute the draft from the current texts."""
        texts = {
            path: self._absolute_text_by_path.get(path, text) for path, text in self.texts.items()
        }
        self.draft = build_draft(self.asset, texts, self.in_use, self.estimate, self.notes)

    def unsent_text(self) -> str:
        """Return a summary of the form if it has typed texts, else an empty text."""
        verb = "edit of" if self.asset.is_edit else "new"
        return f"the {verb} {self.asset.kind} {self.name}".strip() if self.texts else ""


_RELATIVE_TIME_PATTERNS = {
    "time": re.compile(r"\s*(.+\sago|in\s.+|now)\s*"),
    "source": re.compile(r"(?<=\stime=)(\S+ ago)(?![^\s;])"),
}
"""Patterns of relative times in the text of a field, by kind of field."""


def _make_times_absolute(asset: FormAsset, path: str, text: str) -> str:
    """Return a text with its relative times replaced by absolute times.

    A relative time would change with every evaluation.
    """
    kind = next((field.kind for field in form_fields(asset) if field.path == path), "text")
    pattern = _RELATIVE_TIME_PATTERNS.get("source" if kind == "sources" else kind)
    if pattern is None:
        return text
    try:
        return pattern.sub(lambda match: parse_moment(match[1]).isoformat(), text)
    except ValueError:
        return text  # the check of the field reports the error
