"""What the server makes of a consumer's configuration."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.model.config_field import (
    Config,
    number_at,
    read,
    text_at,
    without_server_metadata,
)
from natstui.model.config_normal import with_defaults, without_empty
from natstui.model.consumer_spec import CONSUMER_FIELDS

_S = 1_000_000_000


def normal_consumer(
    config: Mapping[str, object], limits: Mapping[str, object] | None = None
) -> Config:
    """Return a consumer's configuration as the server would keep it.

    `limits` is the `consumer_limits` object of its stream. One filter and a list of one are the
    same, and become the list.
    """
    normal = without_empty(without_server_metadata(config))
    single = normal.pop("filter_subject", None)
    if single and "filter_subjects" not in normal:
        normal["filter_subjects"] = [single]
    if text_at(normal, "durable_name"):
        normal["name"] = normal["durable_name"]
    if normal.get("deliver_policy") == "undefined":
        normal["deliver_policy"] = "all"
    if number_at(normal, "max_deliver") <= 0:
        normal["max_deliver"] = -1
    normal = _normal_delivery(normal, limits or {})
    for path in ("max_batch", "max_expires", "max_bytes", "inactive_threshold", "rate_limit_bps"):
        if number_at(normal, path) <= 0:
            normal.pop(path, None)
    return with_defaults(_normal_inactive(normal, limits or {}), CONSUMER_FIELDS)


def _normal_inactive(config: Config, limits: Mapping[str, object]) -> Config:
    if number_at(config, "inactive_threshold") == 0:
        stream_ns = number_at(limits, "inactive_threshold")
        ephemeral_ns = 0 if text_at(config, "durable_name") else 5 * _S
        if stream_ns or ephemeral_ns:
            config["inactive_threshold"] = stream_ns or ephemeral_ns
    return config


def _normal_delivery(config: Config, limits: Mapping[str, object]) -> Config:
    push = bool(text_at(config, "deliver_subject"))
    backoff = read(config, "backoff")
    if isinstance(backoff, (list, tuple)) and backoff:
        config["ack_wait"] = backoff[0]
    if config.get("ack_policy") == "flow_control":
        config |= {"flow_control": True, "idle_heartbeat": _S}
    acks = config.get("ack_policy", "none") != "none"
    if number_at(config, "ack_wait") == 0:
        config["ack_wait"] = 30 * _S if acks else 0
    config["max_ack_pending"] = _normal_ack_pending(config, limits, acks)
    if number_at(config, "max_waiting") <= 0:
        config["max_waiting"] = 0 if push else 512
    pinned = config.get("priority_policy") == "pinned_client"
    if pinned and number_at(config, "priority_timeout") <= 0:
        config["priority_timeout"] = 120 * _S
    return config


def _normal_ack_pending(config: Config, limits: Mapping[str, object], acks: bool) -> int:
    asked = number_at(config, "max_ack_pending")
    if asked < 0:
        return -1
    limit = number_at(limits, "max_ack_pending")
    return asked or limit or (1000 if acks else 0)
