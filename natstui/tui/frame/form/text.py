"""A form's texts → the configuration they mean, what is wrong with it, and what will happen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from textual.content import Content

from natstui.asset_file import read_asset_file
from natstui.model.assets.consumer_fields import CONSUMER_FIELD
from natstui.model.assets.consumer_rules import consumer_problems, consumer_warnings
from natstui.model.assets.defaults import normal_consumer
from natstui.model.assets.differences import AssetKind, changed, differences, fields_of
from natstui.model.assets.fields import (
    Config,
    Field,
    read,
    read_field,
    text_at,
    with_thresholds_of,
)
from natstui.model.assets.meaning import sentence, size_estimate
from natstui.model.assets.rules import NamesInUse, Problem, newer_server
from natstui.model.assets.stream_rules import stream_problems, stream_warnings
from natstui.model.assets.text import parsed, shown
from natstui.model.natscli.commands import consumer_command, stream_command
from natstui.model.records.messages import DeliveryPreview
from natstui.tui.kit.text import safe, safe_lines
from natstui.units import parse_bytes, parse_count


@dataclass(frozen=True, slots=True)
class Subject:
    """What a form is about."""

    kind: AssetKind
    stream: str
    base: Mapping[str, object]
    """What the form starts with: a template, or the configuration to edit."""
    editing: bool
    owner: Mapping[str, object] | None = None
    """The configuration of the consumer's stream."""
    created_at_us: int | None = None
    """When what is edited was made."""


@dataclass(frozen=True, slots=True)
class FormDraft:
    """What the texts of a form mean now."""

    config: Config
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    command: str
    changes: tuple[tuple[str, str], ...]
    """Of an edit: line and why it is refused, or an empty text."""
    notes: tuple[str, ...] = ()
    """What is good to know and no warning."""


STREAM = Field(
    "stream", "Stream", "text", "Consumer",
    "The stream to consume; the right arrow completes a name.",
)  # fmt: skip
"""No option of a consumer: where a new one is made."""


def form_fields(subject: Subject) -> tuple[Field, ...]:
    """Return the fields of a form; being durable is yes or no, a new consumer has its stream."""
    first = (STREAM,) if subject.kind == "consumer" and not subject.editing else ()
    return first + tuple(
        replace(field, kind="switch", default=True) if field.path == "durable_name" else field
        for field in fields_of(subject.kind)
    )


def start_text(subject: Subject, field: Field) -> str:
    """Return what a field shows before anybody typed."""
    if field is STREAM:
        return subject.stream
    if field.path == "durable_name":
        return "yes" if "durable_name" in subject.base else "no"
    value = read_field(subject.base, field)
    if field.path == "filter_subjects" and value is None:
        value = [text_at(subject.base, "filter_subject")]
        value = value if value[0] else None
    return shown(field, value)


def text_at_start(subject: Subject, path: str) -> str | None:
    """Return the same by path: unchanged texts are not sent again."""
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
    """Return the meaning of the texts that were changed, by path; `notes` are shown too."""
    config, problems = _config(subject, texts)
    found = list(problems)
    wrong = {problem.path for problem in problems}
    checks = _checks(subject, config, in_use.api_level)
    found += [problem for problem in checks if problem.path not in wrong]
    return FormDraft(
        config,
        tuple(found),
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
            value = parsed(field, texts[field.path])
            if field.path == "metadata":
                value = with_thresholds_of(config, value)
            config = changed(config, field, value)
        except ValueError as error:
            problems.append(Problem(field.path, str(error)))
    if subject.kind == "consumer" and not subject.editing:
        durable = texts.get("durable_name", start_text(subject, _DURABLE)) == "yes"
        name = text_at(config, "name")
        # Without a name, what is shown still is what a durable one with some name would be.
        config = changed(config, _DURABLE, (name or _NO_NAME) if durable else None)
        if durable and not name:
            text = f"a durable consumer needs a name; {_ephemeral_text(subject, config)}"
            problems.append(Problem("name", text))
    return config, problems


def _ephemeral_text(subject: Subject, config: Config) -> str:
    """Return how a consumer becomes ephemeral, and after what time it is deleted then."""
    limits = read(subject.owner or {}, "consumer_limits")
    without = {key: value for key, value in config.items() if key != _DURABLE.path}
    completed = normal_consumer(without, limits if isinstance(limits, Mapping) else None)
    field = CONSUMER_FIELD["inactive_threshold"]
    after = shown(field, read(completed, field.path))
    return f"with Durable: no it is ephemeral: deleted after {after} without a client"


_DURABLE = Field("durable_name", "Durable", "text", "Consumer", "")
_NO_NAME = "NAME"
"""What the preview has in the place of a name that is still to be typed."""


def _checks(subject: Subject, config: Config, api_level: int | None) -> Sequence[Problem]:
    seen = subject.base if subject.editing else None
    if subject.kind == "stream":
        return stream_problems(config, api_level, seen=seen)
    if subject.owner is None and not subject.editing:
        said = f"there is no stream {subject.stream}" if subject.stream else "choose a stream"
        return (Problem(STREAM.path, said),)
    return consumer_problems(config, subject.owner, api_level, seen=seen)


def _warnings(subject: Subject, config: Config, in_use: NamesInUse) -> tuple[str, ...]:
    if subject.kind == "stream":
        wanted = [one for filters in in_use.consumer_filters.values() for one in filters]
        return stream_warnings(config, in_use, wanted)
    own = text_at(config, "name")
    others = {name: f for name, f in in_use.consumer_filters.items() if name != own}
    return consumer_warnings(config, subject.owner or {}, others)


def _estimated(subject: Subject, config: Config, estimate: str) -> tuple[str, ...]:
    """Return how much room `1M x 1KB` takes; nothing for another text."""
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
    """Return the JSON that will be sent."""
    return json.dumps(config, indent=2, ensure_ascii=False)


def delivery_text(preview: DeliveryPreview) -> str:
    """Return what a planned consumer would deliver, as a sentence."""
    if preview.first is None:
        return "would deliver none of the stored messages"
    first = preview.first
    more = "" if preview.pending_msgs is None else f", {preview.pending_msgs:,} pending from there"
    return f"would deliver message {first.stream_seq} ({first.subject}) first{more}"


class FormKeys(NamedTuple):
    """The keys that sentences of a form name."""

    send: str
    preview: str


def caption_text(
    subject: Subject, draft: FormDraft, keys: FormKeys, said: str, look: str = "", *, narrow: bool
) -> Content:
    """Return the line above a form: what it makes, and what is said or whether it can be sent."""
    verb = "Edit" if subject.editing else "New"
    name = text_at(draft.config, "name")
    place = f" on {subject.stream}" if subject.kind == "consumer" else ""
    parts = [f"{verb} {subject.kind} {name}{place}".strip()]
    count = len(draft.problems)
    ready = f"ready: {keys.send} sends it"
    if count:
        ready = draft.problems[0].text if count == 1 else f"{count} to correct"
    parts.append(said or ready)
    warned = len(draft.warnings)
    if warned and not said and narrow:
        parts.append(f"{warned} {'warning' if warned == 1 else 'warnings'}: {keys.preview}")
    look = look or ("error" if count else "warn" if warned else "")
    return safe("  ·  ".join(parts), look)


def preview(subject: Subject, draft: FormDraft, loses: Sequence[str] = ()) -> Content:
    """Return the preview of a form; `loses` is what goes for good with it."""
    parts: list[Content] = []
    for problem in draft.problems:
        parts.append(safe(f"✗ {problem.text}", "error"))
    for line in loses:
        parts.append(safe(f"✗ {line}", "error"))
    for warning in draft.warnings:
        parts.append(safe(f"! {warning}", "warn"))
    for note in draft.notes:
        parts.append(safe(note, "accent"))
    for text, refused in draft.changes:
        parts.append(safe(text, "error" if refused else "ok"))
        parts += [safe(f"   refused: {refused}", "error")] if refused else []
    if subject.editing and not draft.changes:
        parts.append(safe("nothing is changed yet", "dim"))
    meaning = sentence(subject.kind, subject.stream, draft.config)
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
    """Return both versions of what somebody else changed meanwhile."""
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
    """Return what a form begins with from a file; raises UsageError."""
    config = read_asset_file(name, kind)
    return {"name": config.get("durable_name") or "", **config}
