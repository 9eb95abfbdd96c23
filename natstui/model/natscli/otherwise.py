"""Flags with another effect in the NATS CLI: refused with a sentence that names the alternative.

Only an empty text that removes a value is accepted, with a sentence about it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from natstui.model.assets.differences import AssetKind, fields_of
from natstui.model.natscli.spellings import SPELLINGS, FlagInputs, Texts, own_flag

_ZERO_IS_NOTHING = {
    "stream": ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "num_replicas"),
    "consumer": ("max_deliver", "max_batch", "max_expires", "max_bytes", "inactive_threshold"),
}
"""Limits that an edit with 0 does not change in the NATS CLI."""
_MINUS_ONE_IS_NOTHING = {
    "stream": ("max_consumers",),
    "consumer": ("max_batch", "max_bytes", "sample"),
}
"""Fields, or a flag, that an edit with -1 does not change in the NATS CLI."""
_EMPTY_IS_NOTHING = {
    "stream": (
        "description", "max_age", "max_bytes", "max_msg_size", "duplicate_window", "mirror",
        "subject_transform.src", "subject_transform.dest", "republish.src", "republish.dest",
    ),
    "consumer": ("description", "deliver_subject"),
}  # fmt: skip
"""Fields that an edit with an empty text does not change in the NATS CLI.

For most other fields it refuses an empty text; filters, tags and the cluster are removed, as here.
"""
_ONE_EACH = {
    "filter_subjects": ("filter", r"[,\s]+"), "placement.tags": ("tag", r"[,\s]+"),
    "sources": ("source", r"\s*;\s*"),
}  # fmt: skip
"""Lists of which a flag is a single item in the NATS CLI → the flag and the separator."""
_ON_TOP = ("subjects", "placement.tags", "placement.cluster", "description", "num_replicas")
"""Fields that `stream add` reads from flags even with `--config`."""


def _flag_of(kind: AssetKind, path: str) -> str:
    """Return the NATS CLI's flag of a field, else natstui's own."""
    field = next(field for field in fields_of(kind) if field.path == path)
    elsewhere = {field.flag for field in SPELLINGS[kind]}
    return field.flag if field.flag and field.flag not in elsewhere else own_flag(field)


def emptied_only_here(inputs: FlagInputs) -> list[str]:
    """Return a sentence for each flag that has an effect here, but none in the NATS CLI."""
    if inputs.adding:
        return []
    empty = [path for path in _EMPTY_IS_NOTHING[inputs.kind] if path in inputs.texts]
    return [
        f"--{_flag_of(inputs.kind, path)} '' takes it away here and does nothing in the NATS CLI"
        for path in empty
        if not any(map(str.strip, inputs.texts[path]))
    ]


def refuse_idle_edit(inputs: FlagInputs, texts: Texts) -> None:
    """Refuse values with which an edit of the NATS CLI has no effect."""
    if inputs.adding:
        return
    for path in _ZERO_IS_NOTHING[inputs.kind]:
        if re.fullmatch(r"0+[A-Za-z]*", texts.get(path, ("",))[-1].strip()):
            raise ValueError(_nothing(path.replace("_", "-")))
    for path in _MINUS_ONE_IS_NOTHING[inputs.kind]:
        values = inputs.spelled.get(path) or texts.get(path) or ("",)
        if values[-1].strip() == "-1":
            raise ValueError(_nothing(path.replace("_", "-"), "-1"))


def _nothing(flag: str, value: str = "0") -> str:
    return (
        f"--{flag} {value} changes nothing in the NATS CLI: say --{flag} '' to take the limit "
        "away, or leave it out"
    )


def refuse_beside_whole(inputs: FlagInputs) -> None:
    """Refuse flags that the NATS CLI ignores beside a complete configuration."""
    if not inputs.whole:
        return
    on_top = [*_ON_TOP, "tags"] if inputs.kind == "stream" and inputs.adding else []
    for name, values in (*inputs.texts.items(), *inputs.spelled.items()):
        is_zero_replicas = name == "num_replicas" and values[-1].strip() == "0"
        if name in on_top and all(map(str.strip, values)) and not is_zero_replicas:
            continue
        flag = name if name in inputs.spelled else _flag_of(inputs.kind, name)
        kept_text = (
            "" if inputs.adding else ", which keeps settings that the file does not mention"
        )
        raise ValueError(
            f"the NATS CLI ignores --{flag} when --config is given: write it into the file, or "
            f"use --file FILE --{flag}{kept_text}"
        )


def refuse_several(inputs: FlagInputs, texts: Texts, by: Mapping[str, str]) -> None:
    """Refuse several items in a flag that the NATS CLI reads as one item."""
    for path, flag, separator in _flags_of_one(inputs, by):
        for text in texts.get(path, ()):
            items = [item for item in re.split(separator, text.strip()) if item]
            if [text.strip()] == items or not items or text.lstrip()[:1] in ("{", "["):
                continue
            repeated_flags = " ".join(f"--{flag} {shlex.quote(item)}" for item in items)
            raise ValueError(
                f"the NATS CLI reads --{flag} {text!r} as one value: for several, repeat the "
                f"option: {repeated_flags}; a value with such a character belongs in --file FILE"
            )


def _flags_of_one(inputs: FlagInputs, by: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield path, flag and separator of items, for flags with a single item."""
    for path, (flag, separator) in _ONE_EACH.items():
        yield path, by.get(path) or flag, separator
    if by.get("priority_groups"):
        yield "priority_groups", by["priority_groups"], r"[,\s]+"
    if inputs.whole:
        yield "subjects", "subjects", r"[,\s]+"
