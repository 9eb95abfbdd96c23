"""A consumer's configuration, as far as the screens need it."""

from __future__ import annotations

import msgspec

from natstui.jetstream.decode_cluster import limit, reading
from natstui.jetstream.decode_consumer import ConsumerRow
from natstui.jetstream.decode_time import time_us
from natstui.model.configuration import ConsumerConfiguration


class _Config(msgspec.Struct):
    name: str = ""
    durable_name: str = ""
    description: str = ""
    deliver_policy: str = "all"
    ack_policy: str = "none"
    ack_wait: int = 0
    max_deliver: int = -1
    max_ack_pending: int = -1
    max_waiting: int = 0
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] | None = None
    deliver_subject: str = ""
    deliver_group: str = ""
    inactive_threshold: int = 0
    priority_policy: str = ""
    num_replicas: int = 0


_CONFIG = msgspec.json.Decoder(_Config)


def consumer_configuration(row: ConsumerRow, stream_replicas_count: int) -> ConsumerConfiguration:
    """Return the configuration of a row; raise RequestFailed when it cannot be read.

    `stream_replicas_count` is what a consumer has that does not say its own.
    """
    raw = bytes(row.config)
    with reading("CONSUMER.LIST"):
        config = _CONFIG.decode(raw)
        created_at_us = time_us(row.created)
    filters = config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())
    return ConsumerConfiguration(
        stream=row.stream_name,
        name=row.name,
        created_at_us=created_at_us,
        description=config.description,
        durable=bool(config.durable_name),
        pull=not config.deliver_subject,
        deliver_policy=config.deliver_policy,
        ack_policy=config.ack_policy,
        ack_wait_ns=limit(config.ack_wait),
        max_deliver_count=limit(config.max_deliver),
        max_ack_pending_msgs=limit(config.max_ack_pending),
        max_waiting_pulls_count=limit(config.max_waiting),
        filter_subjects=filters,
        deliver_subject=config.deliver_subject or None,
        deliver_group=config.deliver_group or None,
        inactive_threshold_ns=limit(config.inactive_threshold),
        priority_policy=config.priority_policy or None,
        replicas_count=config.num_replicas or stream_replicas_count,
        config_json=raw.decode(),
    )
