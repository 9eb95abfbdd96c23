"""Flags of the NATS CLI that are no fields here: the fields that each sets, or its refusal.

A flag that differs from its field only in its name is `Field.flag` of that field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from natstui.model.assets.differences import AssetKind
from natstui.model.assets.fields import Field
from natstui.units import parse_duration_ns

TextsByFieldPath = Mapping[str, Sequence[str]]
"""Path of a field → its values, as people type them."""


class NatsCliFlag(Struct, frozen=True):
    """A flag of the NATS CLI, with the meaning of its values for fields."""

    flag: str
    """Name of the flag, without dashes."""
    help: str
    parse: Callable[[Sequence[str]], TextsByFieldPath]
    """Returns texts of fields; raises ValueError with a sentence about the alternative."""
    metavar: str = ""
    """Name of the value in the help; empty for a switch."""
    only_verb: Literal["", "add", "edit"] = ""
    """The only verb that has the flag; empty if both have it."""
    short_flag: str = ""
    """One letter, without a dash; empty without a short form."""
    is_hidden: bool = False
    """Whether the flag is not in the help: it is refused, or an old name."""


def _fixed_parser(**texts: str) -> Callable[[Sequence[str]], TextsByFieldPath]:
    texts_of_fields = {path.replace("__", "."): (text,) for path, text in texts.items()}
    return lambda _values: texts_of_fields


def _refusal_parser(sentence: str) -> Callable[[Sequence[str]], TextsByFieldPath]:
    def refuse(_values: Sequence[str]) -> TextsByFieldPath:
        raise ValueError(sentence)

    return refuse


def _parse_deliver(values: Sequence[str]) -> TextsByFieldPath:
    """Return the fields of a consumer's start: a policy, a sequence, a time, or a time ago."""
    text = values[-1].strip()
    if text in _DELIVER_POLICY_BY_TEXT:
        return {"deliver_policy": (_DELIVER_POLICY_BY_TEXT[text],)}
    if text.isdigit():
        return {"deliver_policy": ("by_start_sequence",), "opt_start_seq": (text,)}
    if (text[:4].isdigit() and "-" in text) or text.endswith(" ago"):
        moment = text
    else:
        try:
            parse_duration_ns(text)
        except ValueError as error:
            expected_text = "all, new, last, subject, a sequence, a time or a duration as 1h"
            raise ValueError(f"--deliver is {expected_text}, not {text!r}") from error
        moment = f"{text} ago"
    return {"deliver_policy": ("by_start_time",), "opt_start_time": (moment,)}


_DELIVER_POLICY_BY_TEXT = {
    "": "", "all": "all", "new": "new", "next": "new", "last": "last",
    "subject": "last_per_subject", "last_per_subject": "last_per_subject",
    "by_start_sequence": "by_start_sequence", "by_start_time": "by_start_time",
}  # fmt: skip


def _parse_pause(values: Sequence[str]) -> TextsByFieldPath:
    """Return the field of a pause: a time with its zone, or a duration from now."""
    text = values[-1].strip()
    try:
        is_timestamp = is_time(text)
    except ValueError as error:
        raise ValueError(f"--pause: {error}") from error
    is_complete = is_timestamp or not text or text[:3] == "in " or text.endswith("ago")
    return {"pause_until": (text if is_complete else f"in {text}",)}


def is_time(text: str) -> bool:
    """Return whether a text is a time; raises ValueError for a time without a zone."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    if time.tzinfo is None:
        time_text = time.isoformat()
        raise ValueError(
            f"the NATS CLI reads {text.strip()!r} as UTC: write {time_text}Z, or "
            f"{time_text}+02:00 with another zone"
        )
    return True


def _last_value_parser(
    path: str, *, replacements: Mapping[str, str]
) -> Callable[[Sequence[str]], TextsByFieldPath]:
    """Return a parser of a repeated flag: its last value, or the replacement of that value."""
    return lambda values: {path: (replacements.get(values[-1].strip(), values[-1]),)}


def _parse_max_pending(values: Sequence[str]) -> TextsByFieldPath:
    if values[-1].strip() == "-1":
        raise ValueError(
            "--max-pending -1 leaves the limit to the server in the NATS CLI: leave it out, or "
            "use --max-ack-pending unlimited"
        )
    return {"max_ack_pending": (values[-1],)}


def _parse_replicas(values: Sequence[str]) -> TextsByFieldPath:
    text = values[-1].strip()
    if text in ("0", "-1"):
        raise ValueError(
            f"--replicas {text} changes nothing in the NATS CLI: use --num-replicas 0 for the "
            "number of the stream, or leave it out"
        )
    return {"num_replicas": values}


def _groups_parser(policy: str) -> Callable[[Sequence[str]], TextsByFieldPath]:
    return lambda values: {"priority_policy": (policy,), "priority_groups": values}


_VALIDATE_REFUSAL = _refusal_parser("--validate: use --dry-run, which the server checks too")
_OUTPUT_REFUSAL = _refusal_parser("--output: use --dry-run --json > FILE")
_INTERACTIVE_REFUSAL = _refusal_parser(
    "--interactive: use --file FILE, or press e on it in natstui"
)
_COMMON_FLAGS = (
    NatsCliFlag(
        "validate",
        "Called --dry-run here.",
        _VALIDATE_REFUSAL,
        only_verb="add",
        is_hidden=True,
    ),
    NatsCliFlag(
        "output",
        "Called --dry-run --json here.",
        _OUTPUT_REFUSAL,
        "FILE",
        only_verb="add",
        is_hidden=True,
    ),
    NatsCliFlag(
        "interactive",
        "Called --file here.",
        _INTERACTIVE_REFUSAL,
        only_verb="edit",
        short_flag="i",
        is_hidden=True,
    ),
)
_MAX_PENDING_HELP = "Maximum number of unacknowledged messages."

NATS_CLI_FLAGS: dict[AssetKind, tuple[NatsCliFlag, ...]] = {
    "stream": (
        NatsCliFlag("ack", "Publishers get an ack; --no-ack switches it off.",
                 _fixed_parser(no_ack="no")),
        NatsCliFlag(
            "tags", "As --tag.", lambda values: {"placement.tags": values}, "WORDS", is_hidden=True
        ),
        NatsCliFlag("no-mirror", "Remove the mirror.", _fixed_parser(mirror=""), only_verb="edit"),
        NatsCliFlag(
            "no-transform", "Remove the subject transform.",
            _fixed_parser(subject_transform__src="", subject_transform__dest=""), only_verb="edit",
        ),
        NatsCliFlag(
            "no-republish", "Stop republishing.",
            _fixed_parser(republish__src="", republish__dest="", republish__headers_only=""),
            only_verb="edit",
        ),
        *_COMMON_FLAGS,
    ),
    "consumer": (
        NatsCliFlag("pull", "A pull consumer: clients request messages.",
                 _fixed_parser(deliver_subject="")),
        NatsCliFlag(
            "deliver", "all, new, last, subject, a sequence, a time, or a duration ago as 1h.",
            _parse_deliver, "START",
        ),
        NatsCliFlag("pause", "Deliver nothing before a time, or for a duration.", _parse_pause,
                 "TIME"),
        NatsCliFlag(
            "heartbeat", "Interval of heartbeats while nothing is delivered; -1: none.",
            _last_value_parser("idle_heartbeat", replacements={"-1": ""}), "DURATION",
        ),
        NatsCliFlag("max-pending", _MAX_PENDING_HELP, _parse_max_pending, "NUMBER"),
        NatsCliFlag(
            "max-outstanding", _MAX_PENDING_HELP, _parse_max_pending, "NUMBER", is_hidden=True,
        ),
        NatsCliFlag(
            "sample", "Percent of acknowledgements that the server samples; 0: none.",
            _last_value_parser("sample_freq", replacements={"0": "", "-1": ""}), "PERCENT",
        ),
        NatsCliFlag("replicas", "Copies of the consumer's state.", _parse_replicas, "NUMBER",
                 only_verb="edit"),
        NatsCliFlag("pinned-groups", "Priority groups, for a consumer with pinned clients.",
                 _groups_parser("pinned_client"), "GROUPS"),
        NatsCliFlag("overflow-groups", "Groups that wait.", _groups_parser("overflow"),
                 "GROUPS"),
        NatsCliFlag("prioritized-groups", "Groups in order.", _groups_parser("prioritized"),
                 "GROUPS"),
        *_COMMON_FLAGS,
    ),
}  # fmt: skip
"""All flags that need more than another name of a field."""

BACKOFF_FLAGS = {"backoff-steps": "10", "backoff-min": "1m", "backoff-max": "20m"}
"""Flags for `--backoff linear` → their defaults in the NATS CLI."""


class FlagInputs(Struct, frozen=True):
    """The flags of a command, before they are interpreted."""

    kind: AssetKind
    is_new: bool
    texts: TextsByFieldPath
    """Texts of flags that are fields, by path."""
    cli_flag_texts: Mapping[str, Sequence[str]]
    """Texts of flags in `NATS_CLI_FLAGS`, by flag."""
    uses_defaults: bool = False
    """Whether missing values are the defaults of the NATS CLI (`--defaults`)."""
    has_file: bool = False
    """Whether a file has the values without a flag."""
    has_complete_config: bool = False
    """Whether that file is the `--config` of the NATS CLI, a complete configuration."""


def natstui_flag(field: Field) -> str:
    """Return the flag of a field on natstui's command line, without dashes."""
    if field.kind == "threshold":
        return f"monitor-{field.path.rpartition('.')[2]}"
    return field.path.replace("_", "-").replace(".", "-")
