"""What the server accepts and people regret: said while a stream is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from natstui.model.config_field import is_on, number_at, read, strings_at, text_at
from natstui.model.config_normal import normal_stream
from natstui.model.subjects import overlap
from natstui.model.surroundings import Surroundings


def stream_warnings(
    config: Mapping[str, object], around: Surroundings, consumer_filters: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return sentences; `consumer_filters` are those of the stream's own consumers."""
    asked = normal_stream(config)
    return (
        *_overlaps(asked, around),
        *_losses(asked, around),
        *_limits(asked),
        *_lost_consumers(asked, consumer_filters),
    )


def _overlaps(config: Mapping[str, object], around: Surroundings) -> Iterator[str]:
    for other in around.streams:
        if other.name == text_at(config, "name"):
            continue
        for theirs in other.subjects:
            for ours in strings_at(config, "subjects"):
                if overlap(ours, theirs):
                    yield f"{ours!r} overlaps {theirs!r} of stream {other.name}: it is refused"


def _losses(config: Mapping[str, object], around: Surroundings) -> Iterator[str]:
    replicas = number_at(config, "num_replicas")
    if around.servers_count is not None and replicas > around.servers_count:
        servers = "1 server" if around.servers_count == 1 else f"{around.servers_count} servers"
        yield f"{replicas} replicas need {replicas} servers, and there are {servers}"
    if replicas in (2, 4):
        yield f"{replicas} replicas survive no more than {replicas - 1}: use an odd number"
    if text_at(config, "storage") == "memory":
        yield (
            "memory storage: a restart of its server loses every message"
            if replicas == 1
            else "memory storage: a restart of all its servers loses every message"
        )
    if text_at(config, "persist_mode") == "async":
        yield "async persist mode: a crash loses messages that were already acknowledged"
    if is_on(config, "no_ack"):
        yield "no acknowledgement: publishers never learn that a message was refused"


def _limits(config: Mapping[str, object]) -> Iterator[str]:
    bounded = any(
        number_at(config, path) > 0 for path in ("max_msgs", "max_bytes", "max_msgs_per_subject")
    )
    if text_at(config, "discard") == "new" and not bounded:
        yield "discard new without a limit of messages or bytes never refuses anything"
    ages = number_at(config, "max_age") > 0
    if text_at(config, "retention") == "limits" and not bounded and not ages:
        yield "no limit at all: it grows until the disk or the account is full"
    if text_at(config, "retention") == "interest":
        yield "interest retention: what is published while there is no consumer is not kept"
    if text_at(config, "compression") == "s2" and text_at(config, "storage") == "memory":
        yield "compression does nothing for memory storage"


def _lost_consumers(config: Mapping[str, object], filters: Sequence[str]) -> Iterator[str]:
    subjects = strings_at(config, "subjects")
    if read(config, "mirror") or read(config, "sources") or read(config, "subject_transform"):
        return
    for wanted in filters:
        if not any(overlap(wanted, subject) for subject in subjects):
            yield f"a consumer filters {wanted!r}, which this stream would not store any more"
