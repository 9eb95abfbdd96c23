"""The combined meaning of all flags of a command, as texts of fields."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.model.assets.text import exact_duration
from natstui.model.natscli.otherwise import refuse_beside_whole, refuse_idle_edit, refuse_several
from natstui.model.natscli.spellings import BACKOFF_FLAGS, SPELLINGS, FlagInputs
from natstui.units import parse_duration_ns

_WINDOW_NS = 120_000_000_000
"""Default dedup window of the NATS CLI for a stream with sources; the server has none."""


def in_our_words(inputs: FlagInputs) -> dict[str, Sequence[str]]:
    """Return path of a field → texts of all flags; raises ValueError with a sentence."""
    texts, by = dict(inputs.texts), dict.fromkeys(inputs.texts, "")
    refuse_beside_whole(inputs)
    for spelling in SPELLINGS[inputs.kind]:
        if spelling.flag not in inputs.spelled:
            continue
        for path, values in spelling.means(inputs.spelled[spelling.flag]).items():
            if path in texts and texts[path] != tuple(values):
                other = f"--{by[path]}" if by[path] else f"another flag for {path}"
                raise ValueError(f"--{spelling.flag} and {other} contradict each other")
            texts[path], by[path] = tuple(values), spelling.flag
    refuse_several(inputs, texts, by)
    refuse_idle_edit(inputs, texts)
    return _stream(inputs, texts) if inputs.kind == "stream" else _consumer(inputs, texts)


def _stream(inputs: FlagInputs, texts: dict[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    copies = any(texts.get("sources", ())) and not any(texts.get("mirror", ()))
    if inputs.defaults and copies:
        age = parse_duration_ns(texts.get("max_age", ("0",))[-1].replace("-1", "0"))
        window_ns = min(age, _WINDOW_NS) if age else _WINDOW_NS
        texts.setdefault("duplicate_window", (exact_duration(window_ns),))
    return texts


def _consumer(inputs: FlagInputs, texts: dict[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    texts = _with_backoff(inputs, texts)
    last_of_each = texts.get("deliver_policy") == ("last_per_subject",)
    if inputs.adding and last_of_each and "deliver" in inputs.spelled and not inputs.from_file:
        texts.setdefault("filter_subjects", (">",))
    pushes = any(texts.get("deliver_subject", ()))
    if inputs.defaults and pushes:
        texts.setdefault("ack_policy", ("none",))
    return texts


def _with_backoff(inputs: FlagInputs, texts: dict[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the texts with `--backoff linear|none` replaced by its pauses."""
    asked = tuple(text.strip() for text in texts.get("backoff", ()))
    given = {flag: inputs.spelled[flag][-1] for flag in BACKOFF_FLAGS if flag in inputs.spelled}
    if given and asked != ("linear",):
        raise ValueError(f"--{next(iter(given))} needs --backoff linear")
    if asked == ("none",):
        return {**texts, "backoff": ("",)}
    if asked != ("linear",):
        return texts
    words = {**BACKOFF_FLAGS, **given}
    try:
        steps = int(words["backoff-steps"])
        shortest_ns, longest_ns = (
            parse_duration_ns(words[flag]) for flag in ("backoff-min", "backoff-max")
        )
    except ValueError as error:
        raise ValueError(f"--backoff linear: {error}") from error
    pauses = linear_pauses_ns(steps, shortest_ns, longest_ns)
    texts = {**texts, "backoff": (", ".join(map(exact_duration, pauses)),)}
    endless = texts.get("max_deliver", ("-1",))[-1].strip() in _ENDLESS
    if inputs.adding and endless:
        texts["max_deliver"] = (str(steps + 1),)
    return texts


_ENDLESS = ("-1", "0", "unlimited")


def linear_pauses_ns(steps: int, shortest_ns: int, longest_ns: int) -> list[int]:
    """Return linearly growing pauses as in the NATS CLI; the longest is not reached.

    Raises ValueError with a sentence.
    """
    if steps < 1 or not shortest_ns or not longest_ns:
        raise ValueError("a linear backoff needs steps, a shortest and a longest pause above 0")
    shortest_ns, longest_ns = sorted((shortest_ns, longest_ns))
    size_ns = (longest_ns - shortest_ns) // steps
    if size_ns == 0 and longest_ns > shortest_ns:
        raise ValueError(
            "the shortest and the longest pause are too close for this number of steps"
        )
    return [
        shortest_ns + (step * size_ns + 500_000) // 1_000_000 * 1_000_000 for step in range(steps)
    ]
