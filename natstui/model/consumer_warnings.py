"""What the server accepts of a consumer and people regret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from natstui.model.config_field import number_at, read, strings_at, text_at
from natstui.model.subjects import overlap


def consumer_warnings(
    config: Mapping[str, object],
    stream: Mapping[str, object],
    other_filters: Mapping[str, Sequence[str]],
) -> tuple[str, ...]:
    """Return sentences; `other_filters` are those of the stream's other consumers, by name."""
    mine = strings_at(config, "filter_subjects") or (text_at(config, "filter_subject") or ">",)
    found: list[str] = []
    if text_at(stream, "retention") == "workqueue":
        found += _queue_overlaps(mine, other_filters)
    subjects = strings_at(stream, "subjects")
    rewritten = any(read(stream, key) for key in ("mirror", "sources", "subject_transform"))
    for wanted in mine:
        if subjects and not rewritten and not any(overlap(wanted, s) for s in subjects):
            found.append(f"the stream stores nothing that matches {wanted!r}: nothing to deliver")
    if (text_at(config, "ack_policy") or "none") == "none" and number_at(
        config, "max_deliver"
    ) > 0:
        found.append("ack policy none never delivers again: maximum deliveries does nothing")
    if number_at(config, "num_replicas") > number_at(stream, "num_replicas") > 0:
        found.append("a consumer has no more replicas than its stream")
    return tuple(found)


def _queue_overlaps(mine: Sequence[str], others: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, theirs in others.items():
        for wanted in theirs or (">",):
            hit = next((own for own in mine if overlap(own, wanted)), None)
            if hit is not None:
                yield (
                    f"a work queue gives each message to one consumer: {hit!r} overlaps "
                    f"{wanted!r} of consumer {name}, so it is refused"
                )
                break
