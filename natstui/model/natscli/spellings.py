"""Flags of the NATS CLI without a field here: their meaning for fields, or the refusal.

If only the name of a flag differs from its field, the field has it (`Field.flag`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from natstui.model.assets.differences import AssetKind
from natstui.model.assets.fields import Field
from natstui.units import parse_duration_ns

Texts = Mapping[str, Sequence[str]]
"""Path of a field → its values, as people type them."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """A flag of the NATS CLI, with the meaning of its values for fields."""

    flag: str
    """Name of the flag, without dashes."""
    help: str
    parse: Callable[[Sequence[str]], Texts]
    """Returns texts of fields; raises ValueError with a sentence about the alternative."""
    metavar: str = ""
    """Name of the value in the help; empty for a switch."""
    only: Literal["", "add", "edit"] = ""
    short: str = ""
    hidden: bool = False
    """Whether the flag is not in the help: it is refused, or an old name."""


def _fixed_texts(**texts: str) -> Callable[[Sequence[str]], Texts]:
    texts_of_fields = {path.replace("__", "."): (text,) for path, text in texts.items()}
    return lambda _values: texts_of_fields


def _refuse(sentence: str) -> Callable[[Sequence[str]], Texts]:
    def means(_values: Sequence[str]) -> Texts:
        raise ValueError(sentence)

    return means


def _parse_deliver(values: Sequence[str]) -> Texts:
    """Return the fields of a consumer's start: a policy, a sequence, a time, or a time ago."""
    text = values[-1].strip()
    if text in _STARTS:
        return {"deliver_policy": (_STARTS[text],)}
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


_STARTS = {
    "": "", "all": "all", "new": "new", "next": "new", "last": "last",
    "subject": "last_per_subject", "last_per_subject": "last_per_subject",
    "by_start_sequence": "by_start_sequence", "by_start_time": "by_start_time",
}  # fmt: skip


def _parse_pause(values: Sequence[str]) -> Texts:
    """Return the field of a pause: a time with its zone, or a duration from now."""
    text = values[-1].strip()
    try:
        is_written_time = is_time(text)
    except ValueError as error:
        raise ValueError(f"--pause: {error}") from error
    is_complete = is_written_time or not text or text[:3] == "in " or text.endswith("ago")
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


def _last_value(path: str, *, instead: Mapping[str, str]) -> Callable[[Sequence[str]], Texts]:
    """Return a function that returns the last value for a field, replaced by `instead`."""
    return lambda values: {path: (instead.get(values[-1].strip(), values[-1]),)}


def _parse_max_pending(values: Sequence[str]) -> Texts:
    if values[-1].strip() == "-1":
        raise ValueError(
            "--max-pending -1 leaves the limit to the server in the NATS CLI: leave it out, or "
            "say --max-ack-pending unlimited"
        )
    return {"max_ack_pending": (values[-1],)}


def _parse_replicas(values: Sequence[str]) -> Texts:
    text = values[-1].strip()
    if text in ("0", "-1"):
        raise ValueError(
            f"--replicas {text} changes nothing in the NATS CLI: say --num-replicas 0 for the "
            "number of the stream, or leave it out"
        )
    return {"num_replicas": values}


def _groups_of_policy(policy: str) -> Callable[[Sequence[str]], Texts]:
    return lambda values: {"priority_policy": (policy,), "priority_groups": values}


_CHECK = _refuse("--validate: say --dry-run, which asks the server too")
_OUTPUT = _refuse("--output: say --dry-run --json > FILE")
_INTERACTIVE = _refuse("--interactive: say --file FILE, or press e on it in natstui")
_COMMON = (
    Spelling("validate", "Called --dry-run here.", _CHECK, only="add", hidden=True),
    Spelling(
        "output",
        "Called --dry-run --json here.",
        _OUTPUT,
        "FILE",
        only="add",
        hidden=True,
    ),
    Spelling(
        "interactive",
        "Called --file here.",
        _INTERACTIVE,
        only="edit",
        short="i",
        hidden=True,
    ),
)
_PENDING = "Maximum number of unacknowledged messages."

SPELLINGS: dict[AssetKind, tuple[Spelling, ...]] = {
    "stream": (
        Spelling("ack", "Publishers get an ack; --no-ack switches it off.",
                 _fixed_texts(no_ack="no")),
        Spelling(
            "tags", "As --tag.", lambda values: {"placement.tags": values}, "WORDS", hidden=True
        ),
        Spelling("no-mirror", "Remove the mirror.", _fixed_texts(mirror=""), only="edit"),
        Spelling(
            "no-transform", "Remove the subject transform.",
            _fixed_texts(subject_transform__src="", subject_transform__dest=""), only="edit",
        ),
        Spelling(
            "no-republish", "Stop republishing.",
            _fixed_texts(republish__src="", republish__dest="", republish__headers_only=""),
            only="edit",
        ),
        *_COMMON,
    ),
    "consumer": (
        Spelling("pull", "A pull consumer: clients request messages.",
                 _fixed_texts(deliver_subject="")),
        Spelling(
            "deliver", "all, new, last, subject, a sequence, a time, or a duration ago as 1h.",
            _parse_deliver, "START",
        ),
        Spelling("pause", "Deliver nothing before a time, or for a duration.", _parse_pause,
                 "TIME"),
        Spelling(
            "heartbeat", "Interval of heartbeats while nothing is delivered; -1: none.",
            _last_value("idle_heartbeat", instead={"-1": ""}), "DURATION",
        ),
        Spelling("max-pending", _PENDING, _parse_max_pending, "NUMBER"),
        Spelling("max-outstanding", _PENDING, _parse_max_pending, "NUMBER", hidden=True),
        Spelling(
            "sample", "Percent of acknowledgements that the server samples; 0: none.",
            _last_value("sample_freq", instead={"0": "", "-1": ""}), "PERCENT",
        ),
        Spelling("replicas", "Copies of the consumer's state.", _parse_replicas, "NUMBER",
                 only="edit"),
        Spelling("pinned-groups", "Priority groups, for a consumer with pinned clients.",
                 _groups_of_policy("pinned_client"), "GROUPS"),
        Spelling("overflow-groups", "Groups that wait.", _groups_of_policy("overflow"), "GROUPS"),
        Spelling("prioritized-groups", "Groups in order.", _groups_of_policy("prioritized"),
                 "GROUPS"),
        *_COMMON,
    ),
}  # fmt: skip
"""All flags that need more than another name of a field."""

BACKOFF_FLAGS = {"backoff-steps": "10", "backoff-min": "1m", "backoff-max": "20m"}
"""Flags for `--backoff linear` → their defaults in the NATS CLI."""


@dataclass(frozen=True, slots=True)
class FlagInputs:
    """The flags of a command, before they are interpreted."""

    kind: AssetKind
    is_new: bool
    texts: Texts
    """Texts of flags that are fields, by path."""
    special_texts: Texts
    """Texts of flags in `SPELLINGS`, by flag."""
    defaults: bool = False
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
