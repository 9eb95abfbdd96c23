"""The combined meaning of all flags of a command, as texts of fields.

Flags with another effect in the NATS CLI are refused with a sentence that names the alternative.
Only an empty text that removes a value is accepted, with a sentence about it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from natstui.model.assets.differences import AssetKind, fields_of
from natstui.model.assets.text import exact_duration
from natstui.model.natscli.spellings import (
    BACKOFF_FLAGS,
    NATS_CLI_FLAGS,
    FlagInputs,
    TextsByFieldPath,
    natstui_flag,
)
from natstui.units import parse_duration_ns

_DEFAULT_DUPLICATE_WINDOW_NS = 120_000_000_000
"""Default dedup window of the NATS CLI for a stream with sources; the server has none."""


def interpret_flags(inputs: FlagInputs) -> dict[str, Sequence[str]]:
    """Return field path → its values as text, from all flags.

    Raises ValueError with a sentence for flags that contradict each other or are refused.
    """
    texts, flag_of_path = dict(inputs.texts), dict.fromkeys(inputs.texts, "")
    refuse_flags_beside_config(inputs)
    for cli_flag in NATS_CLI_FLAGS[inputs.kind]:
        if cli_flag.flag not in inputs.cli_flag_texts:
            continue
        for path, values in cli_flag.parse(inputs.cli_flag_texts[cli_flag.flag]).items():
            if path in texts and texts[path] != tuple(values):
                contradicting_flag = (
                    f"--{flag_of_path[path]}" if flag_of_path[path] else f"another flag for {path}"
                )
                raise ValueError(
                    f"--{cli_flag.flag} and {contradicting_flag} contradict each other"
                )
            texts[path], flag_of_path[path] = tuple(values), cli_flag.flag
    refuse_several_items(inputs, texts, flag_of_path)
    refuse_edit_without_effect(inputs, texts)
    return (
        _add_stream_defaults(inputs, texts)
        if inputs.kind == "stream"
        else _add_consumer_defaults(inputs, texts)
    )


def _add_stream_defaults(
    inputs: FlagInputs, texts: dict[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    has_sources = any(texts.get("sources", ())) and not any(texts.get("mirror", ()))
    if inputs.uses_defaults and has_sources:
        age_ns = parse_duration_ns(texts.get("max_age", ("0",))[-1].replace("-1", "0"))
        window_ns = (
            min(age_ns, _DEFAULT_DUPLICATE_WINDOW_NS) if age_ns else _DEFAULT_DUPLICATE_WINDOW_NS
        )
        texts.setdefault("duplicate_window", (exact_duration(window_ns),))
    return texts


def _add_consumer_defaults(
    inputs: FlagInputs, texts: dict[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    texts = _replace_linear_backoff(inputs, texts)
    is_last_per_subject = texts.get("deliver_policy") == ("last_per_subject",)
    if (
        inputs.is_new
        and is_last_per_subject
        and "deliver" in inputs.cli_flag_texts
        and not inputs.has_file
    ):
        texts.setdefault("filter_subjects", (">",))
    is_push = any(texts.get("deliver_subject", ()))
    if inputs.uses_defaults and is_push:
        texts.setdefault("ack_policy", ("none",))
    return texts


def _replace_linear_backoff(
    inputs: FlagInputs, texts: dict[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """Return the texts with `--backoff linear` replaced by its pauses, and `none` by no pause.

    Raises ValueError with a sentence.
    """
    backoff_texts = tuple(text.strip() for text in texts.get("backoff", ()))
    backoff_flags = {
        flag: inputs.cli_flag_texts[flag][-1]
        for flag in BACKOFF_FLAGS
        if flag in inputs.cli_flag_texts
    }
    if backoff_flags and backoff_texts != ("linear",):
        raise ValueError(f"--{next(iter(backoff_flags))} needs --backoff linear")
    if backoff_texts == ("none",):
        return {**texts, "backoff": ("",)}
    if backoff_texts != ("linear",):
        return texts
    settings = {**BACKOFF_FLAGS, **backoff_flags}
    try:
        steps_count = int(settings["backoff-steps"])
        shortest_ns, longest_ns = (
            parse_duration_ns(settings[flag]) for flag in ("backoff-min", "backoff-max")
        )
    except ValueError as error:
        raise ValueError(f"--backoff linear: {error}") from error
    pauses_ns = linear_pauses_ns(steps_count, shortest_ns, longest_ns)
    texts = {**texts, "backoff": (", ".join(map(exact_duration, pauses_ns)),)}
    is_unlimited = texts.get("max_deliver", ("-1",))[-1].strip() in _UNLIMITED_TEXTS
    if inputs.is_new and is_unlimited:
        texts["max_deliver"] = (str(steps_count + 1),)
    return texts


_UNLIMITED_TEXTS = ("-1", "0", "unlimited")


def linear_pauses_ns(steps_count: int, shortest_ns: int, longest_ns: int) -> list[int]:
    """Return `steps_count` linearly growing pauses as in the NATS CLI, all below `longest_ns`.

    Raises ValueError for pauses that are 0 or too close, and without steps.
    """
    if steps_count < 1 or not shortest_ns or not longest_ns:
        raise ValueError("a linear backoff needs steps, a shortest and a longest pause above 0")
    shortest_ns, longest_ns = sorted((shortest_ns, longest_ns))
    step_size_ns = (longest_ns - shortest_ns) // steps_count
    if step_size_ns == 0 and longest_ns > shortest_ns:
        raise ValueError(
            "the shortest and the longest pause are too close for this number of steps"
        )
    return [
        shortest_ns + (step * step_size_ns + 500_000) // 1_000_000 * 1_000_000
        for step in range(steps_count)
    ]


_FIELDS_IGNORING_ZERO = {
    "stream": ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "num_replicas"),
    "consumer": ("max_deliver", "max_batch", "max_expires", "max_bytes", "inactive_threshold"),
}
"""Limits that an edit with 0 does not change in the NATS CLI."""
_FIELDS_IGNORING_MINUS_ONE = {
    "stream": ("max_consumers",),
    "consumer": ("max_batch", "max_bytes", "sample"),
}
"""Fields, or a flag, that an edit with -1 does not change in the NATS CLI."""
_FIELDS_IGNORING_EMPTY_TEXT = {
    "stream": (
        "description", "max_age", "max_bytes", "max_msg_size", "duplicate_window", "mirror",
        "subject_transform.src", "subject_transform.dest", "republish.src", "republish.dest",
    ),
    "consumer": ("description", "deliver_subject"),
}  # fmt: skip
"""Fields that an edit with an empty text does not change in the NATS CLI.

For most other fields it refuses an empty text; filters, tags and the cluster are removed, as here.
"""
_SINGLE_ITEM_FLAGS = {
    "filter_subjects": ("filter", r"[,\s]+"), "placement.tags": ("tag", r"[,\s]+"),
    "sources": ("source", r"\s*;\s*"),
}  # fmt: skip
"""Lists of which a flag is a single item in the NATS CLI → the flag and the separator."""
_FIELDS_READ_BESIDE_CONFIG = (
    "subjects",
    "placement.tags",
    "placement.cluster",
    "description",
    "num_replicas",
)
"""Fields that `stream add` reads from flags even with `--config`."""


def _find_flag_name(kind: AssetKind, path: str) -> str:
    """Return the flag of a field in the NATS CLI, else in natstui."""
    field = next(field for field in fields_of(kind) if field.path == path)
    cli_only_flags = {field.flag for field in NATS_CLI_FLAGS[kind]}
    return field.flag if field.flag and field.flag not in cli_only_flags else natstui_flag(field)


def removal_notes(inputs: FlagInputs) -> list[str]:
    """Return a sentence for each empty flag that removes a value only in natstui."""
    if inputs.is_new:
        return []
    empty_paths = [
        path for path in _FIELDS_IGNORING_EMPTY_TEXT[inputs.kind] if path in inputs.texts
    ]
    return [
        f"--{_find_flag_name(inputs.kind, path)} '' takes it away here and does nothing in the "
        "NATS CLI"
        for path in empty_paths
        if not any(map(str.strip, inputs.texts[path]))
    ]


def refuse_edit_without_effect(inputs: FlagInputs, texts: TextsByFieldPath) -> None:
    """Raise ValueError for a limit of 0 or -1, which an edit of the NATS CLI ignores."""
    if inputs.is_new:
        return
    for path in _FIELDS_IGNORING_ZERO[inputs.kind]:
        if re.fullmatch(r"0+[A-Za-z]*", texts.get(path, ("",))[-1].strip()):
            raise ValueError(_no_effect_text(path.replace("_", "-")))
    for path in _FIELDS_IGNORING_MINUS_ONE[inputs.kind]:
        values = inputs.cli_flag_texts.get(path) or texts.get(path) or ("",)
        if values[-1].strip() == "-1":
            raise ValueError(_no_effect_text(path.replace("_", "-"), "-1"))


def _no_effect_text(flag: str, value: str = "0") -> str:
    return (
        f"--{flag} {value} changes nothing in the NATS CLI: use --{flag} '' to take the limit "
        "away, or leave it out"
    )


def refuse_flags_beside_config(inputs: FlagInputs) -> None:
    """Raise ValueError for a flag that the NATS CLI ignores beside `--config`."""
    if not inputs.has_complete_config:
        return
    flags_beside_config = (
        [*_FIELDS_READ_BESIDE_CONFIG, "tags"] if inputs.kind == "stream" and inputs.is_new else []
    )
    for name, values in (*inputs.texts.items(), *inputs.cli_flag_texts.items()):
        is_zero_replicas = name == "num_replicas" and values[-1].strip() == "0"
        if name in flags_beside_config and all(map(str.strip, values)) and not is_zero_replicas:
            continue
        flag = name if name in inputs.cli_flag_texts else _find_flag_name(inputs.kind, name)
        kept_text = (
            "" if inputs.is_new else ", which keeps settings that the file does not mention"
        )
        raise ValueError(
            f"the NATS CLI ignores --{flag} when --config is given: write it into the file, or "
            f"use --file FILE --{flag}{kept_text}"
        )


def refuse_several_items(
    inputs: FlagInputs, texts: TextsByFieldPath, flag_of_path: Mapping[str, str]
) -> None:
    """Raise ValueError for several items in a flag that the NATS CLI reads as one item."""
    for path, flag, separator in _iterate_single_item_flags(inputs, flag_of_path):
        for text in texts.get(path, ()):
            items = [item for item in re.split(separator, text.strip()) if item]
            if [text.strip()] == items or not items or text.lstrip()[:1] in ("{", "["):
                continue
            repeated_flags = " ".join(f"--{flag} {shlex.quote(item)}" for item in items)
            raise ValueError(
                f"the NATS CLI reads --{flag} {text!r} as one value: for several, repeat the "
                f"option: {repeated_flags}; a value with such a character belongs in --file FILE"
            )


def _iterate_single_item_flags(
    inputs: FlagInputs, flag_of_path: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield path, flag and separator of each flag that has a single item in the NATS CLI."""
    for path, (flag, separator) in _SINGLE_ITEM_FLAGS.items():
        yield path, flag_of_path.get(path) or flag, separator
    if flag_of_path.get("priority_groups"):
        yield "priority_groups", flag_of_path["priority_groups"], r"[,\s]+"
    if inputs.has_complete_config:
        yield "subjects", "subjects", r"[,\s]+"
