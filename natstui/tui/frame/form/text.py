"""From the texts typed into a form to their configuration, its errors, and its effect."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from textual.content import Content

from natstui.asset_file import read_asset_file
from natstui.model.assets.consumer_fields import CONSUMER_FIELD
from natstui.model.assets.consumer_rules import consumer_problems, consumer_warnings
from natstui.model.assets.defaults import normal_consumer
from natstui.model.assets.differences import AssetKind, differences, fields_of, with_field
from natstui.model.assets.fields import (
    Config,
    Field,
    read,
    read_field,
    text_at,
    with_thresholds_of,
)
from natstui.model.assets.meaning import behaviour_text, size_estimate
from natstui.model.assets.rules import NamesInUse, Problem, newer_server
from natstui.model.assets.stream_rules import stream_problems, stream_warnings
from natstui.model.assets.text import format_field, parse_field
from natstui.model.natscli.commands import consumer_command, stream_command
from natstui.model.records.messages import DeliveryPreview
from natstui.tui.kit.text import safe, safe_lines
from natstui.units import counted, parse_bytes, parse_count, parse_moment


@dataclass(frozen=True, slots=True)
class Subject:
    """The stream or consumer that a form creates or edits."""

    kind: AssetKind
    stream: str
    base: Mapping[str, object]
    """The start configuration: a template, or the configuration to edit."""
    editing: bool
    owner: Mapping[str, object] | None = None
    """The configuration of the consumer's stream."""
    created_at_us: int | None = None
    """Creation time of the stream or consumer to edit."""


@dataclass(frozen=True, slots=True)
class FormDraft:
    """The configuration that the texts of a form mean, with errors and warnings."""

    config: Config
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    command: str
    changes: tuple[tuple[str, str], ...]
    """Of an edit: the changed line, and why it is refused, or an empty text."""
    notes: tuple[str, ...] = ()
    """Remarks that are no warnings."""


STREAM = Field(
    "stream", "Stream", "text", "Consumer",
    "The stream to consume; the right arrow completes a name.",
)  # fmt: skip
"""Field for the stream of a new consumer; it is not part of the configuration."""


def form_fields(subject: Subject) -> tuple[Field, ...]:
    """Return the fields of a form; durable is a yes/no field, a new consumer has a stream
    field.
    """
    first = (STREAM,) if subject.kind == "consumer" and not subject.editing else ()
    return first + tuple(
        replace(field, kind="switch", default=True) if field.path == "durable_name" else field
        for field in fields_of(subject.kind)
    )


def start_text(subject: Subject, field: Field) -> str:
    """Return the text of a field before anything is typed."""
    if field is STREAM:
        return subject.stream
    if field.path == "durable_name":
        return "yes" if "durable_name" in subject.base else "no"
    value = read_field(subject.base, field)
    if field.path == "filter_subjects" and value is None:
        value = [text_at(subject.base, "filter_subject")]
        value = value if value[0] else None
    return format_field(field, value)


def text_at_start(subject: Subject, path: str) -> str | None:
    """Return the start text of the field with a path: unchanged texts are not sent again."""
    return next((start_text(subject, f) for f in form_fields(subject) if f.path == path), None)


def locked(subject: Subject, field: Field, api_level: int | None) -> str | None:
    """Return why a field cannot be changed here; None when it can."""
    if api_level is not None and field.api_level_count > api_level:
        return newer_server(field)
    if subject.editing and not (field.path == "mirror" and read(subject.base, "mirror")):
        return field.fixed
    return None


def drafted(
    subject: Subject,
    texts: Mapping[str, str],
    in_use: NamesInUse,
    estimate: str = "",
    notes: Sequence[str] = (),
) -> FormDraft:
    """Return the draft of the changed texts, by path; `notes` are added to its remarks."""
    config, problems = _config(subject, texts)
    all_problems = list(problems)
    wrong_paths = {problem.path for problem in problems}
    checks = _checks(subject, config, in_use.api_level)
    all_problems += [problem for problem in checks if problem.path not in wrong_paths]
    return FormDraft(
        config,
        tuple(all_problems),
        _warnings(subject, config, in_use),
        _command(subject, config),
        _changes(subject, config),
        (*_estimated(subject, config, estimate), *notes),
    )


def _config(subject: Subject, texts: Mapping[str, str]) -> tuple[Config, list[Problem]]:
    config: Config = dict(subject.base)
    problems = []
    for field in form_fields(subject):
        if field.path not in texts or field.path == "durable_name":
            continue
        try:
            value = parse_field(field, texts[field.path])
            if field.path == "metadata":
                value = with_thresholds_of(config, value)
            config = with_field(config, field, value)
        except ValueError as error:
            problems.append(Problem(field.path, str(error)))
    if subject.kind == "consumer" and not subject.editing:
        durable = texts.get("durable_name", start_text(subject, _DURABLE)) == "yes"
        name = text_at(config, "name")
        # Without a name, what is shown still is what a durable one with some name would be.
        config = with_field(config, _DURABLE, (name or _NO_NAME) if durable else None)
        if durable and not name:
            text = f"a durable consumer needs a name; {_ephemeral_text(subject, config)}"
            problems.append(Problem("name", text))
    return config, problems


def _ephemeral_text(subject: Subject, config: Config) -> str:
    """Return that a consumer becomes ephemeral, and when it will be deleted."""
    limits = read(subject.owner or {}, "consumer_limits")
    without_durable = {key: value for key, value in config.items() if key != _DURABLE.path}
    normal_config = normal_consumer(
        without_durable, limits if isinstance(limits, Mapping) else None
    )
    field = CONSUMER_FIELD["inactive_threshold"]
    after = format_field(field, read(normal_config, field.path))
    return f"with Durable: no it is ephemeral: deleted after {after} without a client"


_DURABLE = Field("durable_name", "Durable", "text", "Consumer", "")
_NO_NAME = "NAME"
"""Placeholder in the preview for a name that is not typed yet."""


def _checks(subject: Subject, config: Config, api_level: int | None) -> Sequence[Problem]:
    current = subject.base if subject.editing else None
    if subject.kind == "stream":
        return stream_problems(config, api_level, config_before=current)
    if subject.owner is None and not subject.editing:
        problem_text = (
            f"there is no stream {subject.stream}" if subject.stream else "choose a stream"
        )
        return (Problem(STREAM.path, problem_text),)
    return consumer_problems(config, subject.owner, api_level, config_before=current)


def _warnings(subject: Subject, config: Config, in_use: NamesInUse) -> tuple[str, ...]:
    if subject.kind == "stream":
        filters_in_use = [
            subject_filter
            for filters in in_use.consumer_filters.values()
            for subject_filter in filters
        ]
        return stream_warnings(config, in_use, filters_in_use)
    own_name = text_at(config, "name")
    other_filters = {name: f for name, f in in_use.consumer_filters.items() if name != own_name}
    return consumer_warnings(config, subject.owner or {}, other_filters)


def _estimated(subject: Subject, config: Config, estimate: str) -> tuple[str, ...]:
    """Return how much space `1M x 1KB` needs; empty for other texts."""
    count, sign, size = estimate.partition("x")
    if subject.kind != "stream" or not sign:
        return ()
    try:
        return (size_estimate(config, parse_count(count), parse_bytes(size)),)
    except ValueError as error:
        return (f"Estimate: {error}",)


def _command(subject: Subject, config: Config) -> str:
    base = subject.base if subject.editing else None
    if subject.kind == "stream":
        return stream_command(config, base)
    return consumer_command(subject.stream, config, base)


def _changes(subject: Subject, config: Config) -> tuple[tuple[str, str], ...]:
    if not subject.editing:
        return ()
    return tuple(
        (f"{d.label}: {d.before or 'unset'} → {d.after or 'unset'}", d.refused or "")
        for d in differences(subject.kind, subject.base, config)
    )


def config_text(config: Mapping[str, object]) -> str:
    """Return the JSON to send."""
    return json.dumps(config, indent=2, ensure_ascii=False)


def delivery_text(preview: DeliveryPreview) -> str:
    """Return what a planned consumer would deliver, as a sentence."""
    if preview.first is None:
        return "would deliver none of the stored messages"
    first = preview.first
    pending_text = (
        "" if preview.pending_msgs is None else f", {preview.pending_msgs:,} pending from there"
    )
    return f"would deliver message {first.stream_seq} ({first.subject}) first{pending_text}"


class FormKeys(NamedTuple):
    """The keys that a form's sentences name."""

    send: str
    preview: str


def caption_text(
    subject: Subject,
    draft: FormDraft,
    keys: FormKeys,
    sentence: str,
    look: str = "",
    *,
    narrow: bool,
) -> Content:
    """Return the line above a form: its subject, and a sentence or whether it can be sent."""
    verb = "Edit" if subject.editing else "New"
    name = text_at(draft.config, "name")
    stream_text = f" on {subject.stream}" if subject.kind == "consumer" else ""
    parts = [f"{verb} {subject.kind} {name}{stream_text}".strip()]
    count = len(draft.problems)
    status = f"ready: {keys.send} sends it"
    if count:
        status = draft.problems[0].text if count == 1 else f"{count} to correct"
    parts.append(sentence or status)
    warnings_count = len(draft.warnings)
    if warnings_count and not sentence and narrow:
        parts.append(f"{counted(warnings_count, 'warning')}: {keys.preview}")
    look = look or ("error" if count else "warn" if warnings_count else "")
    return safe("  ·  ".join(parts), look)


def preview(subject: Subject, draft: FormDraft, loses: Sequence[str] = ()) -> Content:
    """Return the preview of a form; `loses` is what the change deletes for good."""
    parts: list[Content] = []
    for problem in draft.problems:
        parts.append(safe(f"✗ {problem.text}", "error"))
    for line in loses:
        parts.append(safe(f"✗ {line}", "error"))
    for warning in draft.warnings:
        parts.append(safe(f"! {warning}", "warn"))
    for note in draft.notes:
        parts.append(safe(note, "accent"))
    for text, reason in draft.changes:
        parts.append(safe(text, "error" if reason else "ok"))
        parts += [safe(f"   refused: {reason}", "error")] if reason else []
    if subject.editing and not draft.changes:
        parts.append(safe("nothing is changed yet", "dim"))
    meaning = behaviour_text(subject.kind, subject.stream, draft.config)
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


def conflict_text(subject: Subject, current: Mapping[str, object], keys: FormKeys) -> Content:
    """Return a comparison of both versions, after somebody else changed the configuration."""
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
    for item in differences(subject.kind, subject.base, current):
        parts.append(safe(item.label, "strong"))
        parts.append(safe(f"   when you opened the form: {item.before or 'unset'}"))
        parts.append(safe(f"   now:                {item.after or 'unset'}", "warn"))
    return Content("\n").join(parts)


def config_of_file(name: str, kind: AssetKind) -> Config:
    """Return the start configuration in a file; raises UsageError."""
    config = read_asset_file(name, kind)
    return {"name": config.get("durable_name") or "", **config}


class Entries:
    """Keeps typed texts apart from the start configuration, which may change below them."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.texts: dict[str, str] = {}
        """Typed texts by path; a field that shows its start text again has no entry."""
        self._settled: dict[str, str] = {}
        """Typed texts by path, with relative times replaced by absolute ones."""
        self.estimate = ""
        self.in_use = NamesInUse()
        self.notes: tuple[str, ...] = ()
        self.draft = drafted(subject, {}, self.in_use)
        """What the texts meant when they were last checked."""

    @property
    def name(self) -> str:
        """Return the name that the stream or consumer will have."""
        return text_at(self.draft.config, "name")

    def text_of(self, field: Field) -> str:
        """Return the current text of a field."""
        return self.texts.get(field.path, start_text(self.subject, field))

    def is_changed(self, field: Field) -> bool:
        """Return whether the text of a field differs from its start text."""
        start = start_text(self.subject, field) if field.path else ""
        return self.texts.get(field.path, start) != start

    def put(self, path: str, text: str) -> None:
        """Store a typed text; an empty path means the size estimate."""
        if path == "":
            self.estimate = text
        elif text == text_at_start(self.subject, path):
            self.texts.pop(path, None)
            self._settled.pop(path, None)
        elif self.texts.get(path) != text:
            self.texts[path] = text
            self._settled[path] = _settled(self.subject, path, text)

    def start_from(self, base: Mapping[str, object]) -> None:
        """Replace the start configuration; typed texts are kept."""
        self.subject = replace(self.subject, base=base)

    def go_on_from(self, subject: Subject, sent_texts: Mapping[str, str]) -> None:
        """Replace the start configuration by the server's reply; texts typed since sending are
        kept.
        """
        # What was set back since has no text here, and differs all the same from what was sent.
        texts = {path: text_at_start(self.subject, path) or "" for path in sent_texts}
        texts |= self.texts
        self.subject = subject
        self.texts = {
            path: text
            for path, text in texts.items()
            if text not in (sent_texts.get(path), text_at_start(subject, path))
        }

    def redraft(self) -> None:
        """Compute the draft from the current texts."""
        texts = {path: self._settled.get(path, text) for path, text in self.texts.items()}
        self.draft = drafted(self.subject, texts, self.in_use, self.estimate, self.notes)

    def unsent(self) -> str:
        """Return a summary of typed texts that were not sent; empty without any."""
        verb = "edit of" if self.subject.editing else "new"
        return f"the {verb} {self.subject.kind} {self.name}".strip() if self.texts else ""


_FROM_NOW = {
    "time": re.compile(r"\s*(.+\sago|in\s.+|now)\s*"),
    "source": re.compile(r"(?<=\stime=)(\S+ ago)(?![^\s;])"),
}
"""Relative times in the text of a field, by kind of field."""


def _settled(subject: Subject, path: str, text: str) -> str:
    """Return a text with relative times made absolute, as they would change with every
    evaluation.
    """
    kind = next((field.kind for field in form_fields(subject) if field.path == path), "text")
    pattern = _FROM_NOW.get("source" if kind == "sources" else kind)
    if pattern is None:
        return text
    try:
        return pattern.sub(lambda match: parse_moment(match[1]).isoformat(), text)
    except ValueError:
        return text  # the field says what is wrong with it
