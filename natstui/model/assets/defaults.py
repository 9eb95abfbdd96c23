"""Completes configurations as the server does: defaults of absent keys, and implied settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.fields import (
    Config,
    Field,
    is_on,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
    with_value_at,
    without_server_metadata,
)
from natstui.model.assets.stream_fields import STREAM_FIELDS

_NS_PER_S = 1_000_000_000
_FIELDS_UNLIMITED_BELOW_ONE = (
    "max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size",
)  # fmt: skip


def with_defaults(config: Config, fields: Sequence[Field]) -> Config:
    """Return the configuration with the server's default for each absent field."""
    for field in fields:
        if field.default is not None and read(config, field.path) is None:
            config = with_value_at(config, field.path, field.default)
    return config


def without_empty_values(config: Config) -> Config:
    """Return the configuration without keys whose value is absent or empty."""
    empty_values: tuple[object, ...] = ("", [], (), {}, None)
    config = dict(config)
    for path in ("placement", "republish"):
        nested_config = config.get(path)
        if isinstance(nested_config, Mapping):
            config[path] = {key: value for key, value in nested_config.items() if value}
    return {key: value for key, value in config.items() if value not in empty_values}


def normalize_stream(config: Mapping[str, object]) -> Config:
    """Return a stream's configuration as the server would store it, without server metadata."""
    normal_config = without_empty_values(without_server_metadata(config))
    has_upstream = "mirror" in normal_config or "sources" in normal_config
    if not has_upstream and not strings_at(normal_config, "subjects"):
        normal_config["subjects"] = [text_at(normal_config, "name")]
    if number_at(normal_config, "duplicate_window") == 0:
        normal_config["duplicate_window"] = (
            0 if has_upstream else _default_duplicate_window_ns(normal_config)
        )
    for path in _FIELDS_UNLIMITED_BELOW_ONE:
        if number_at(normal_config, path) <= 0:
            normal_config[path] = -1
    if number_at(normal_config, "num_replicas") == 0:
        normal_config["num_replicas"] = 1
    if isinstance(normal_config.get("republish"), Mapping) and not text_at(
        normal_config, "republish.src"
    ):
        normal_config = with_value_at(normal_config, "republish.src", ">")
    return _apply_implied_settings(
        with_defaults(_normalize_upstreams(normal_config), STREAM_FIELDS)
    )


def _default_duplicate_window_ns(config: Config) -> int:
    max_age_ns = number_at(config, "max_age")
    return min(max_age_ns, 120 * _NS_PER_S) if max_age_ns > 0 else 120 * _NS_PER_S


def _apply_implied_settings(config: Config) -> Config:
    """Return the configuration with the settings that other settings imply."""
    if number_at(config, "subject_delete_marker_ttl") > 0:
        config |= {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "deny_purge": False}
    if is_on(config, "allow_msg_schedules"):
        config |= {"allow_rollup_hdrs": True, "deny_purge": False}
    if is_on(config, "sealed"):
        config |= {"discard": "new", "deny_delete": True, "deny_purge": True}
    return config


def _normalize_upstreams(config: Config) -> Config:
    if isinstance(config.get("mirror"), Mapping):
        config["mirror"] = _normalize_source(dict(objects_at({"m": [config["mirror"]]}, "m")[0]))
    if "sources" in config:
        config["sources"] = [_normalize_source(source) for source in objects_at(config, "sources")]
    return config


def _normalize_source(source: Config) -> Config:
    if isinstance(source.get("external"), Mapping) and not text_at(source, "external.deliver"):
        source = with_value_at(source, "external.deliver", None)
    return without_empty_values(source)


def consumer_request(
    stream: str, name: str, config: Mapping[str, object], action: str
) -> tuple[str, Config]:
    """Return the API verb and body of a request that creates or updates a consumer.

    `action` is `create`, `update`, or empty for either of them. A single filter is also part of
    the verb, as permissions may require it; the server then accepts it only as `filter_subject`.
    """
    consumer_config = {key: value for key, value in config.items() if key not in FILTER_KEYS}
    filters = strings_at(config, "filter_subjects")
    filters = filters or tuple(filter(None, [text_at(config, "filter_subject")]))
    if len(filters) == 1:
        consumer_config["filter_subject"] = filters[0]
    elif filters:
        consumer_config["filter_subjects"] = list(filters)
    tokens = ["CONSUMER.CREATE", stream, *([name] if name else [])]
    tokens += filters if name and len(filters) == 1 else ()
    body: Config = {"stream_name": stream, "config": consumer_config}
    return ".".join(tokens), body | ({"action": action} if action else {})


FILTER_KEYS = ("filter_subject", "filter_subjects")
"""The keys of a consumer's filters; a configuration has one of them."""


def normalize_consumer(
    config: Mapping[str, object], consumer_limits: Mapping[str, object] | None = None
) -> Config:
    """Return a consumer's configuration as the server would store it.

    `consumer_limits` is that object in the configuration of its stream. A single filter
    becomes a list.
    """
    normal_config = without_empty_values(without_server_metadata(config))
    single_filter = normal_config.pop("filter_subject", None)
    if single_filter and "filter_subjects" not in normal_config:
        normal_config["filter_subjects"] = [single_filter]
    if text_at(normal_config, "durable_name"):
        normal_config["name"] = normal_config["durable_name"]
    if normal_config.get("deliver_policy") == "undefined":
        normal_config["deliver_policy"] = "all"
    if number_at(normal_config, "max_deliver") <= 0:
        normal_config["max_deliver"] = -1
    normal_config = _normalize_delivery(normal_config, consumer_limits or {})
    for path in ("max_batch", "max_expires", "max_bytes", "inactive_threshold", "rate_limit_bps"):
        if number_at(normal_config, path) <= 0:
            normal_config.pop(path, None)
    return with_defaults(
        _normalize_inactive_threshold(normal_config, consumer_limits or {}), CONSUMER_FIELDS
    )


def _normalize_inactive_threshold(config: Config, consumer_limits: Mapping[str, object]) -> Config:
    if number_at(config, "inactive_threshold") == 0:
        stream_threshold_ns = number_at(consumer_limits, "inactive_threshold")
        default_threshold_ns = 0 if text_at(config, "durable_name") else 5 * _NS_PER_S
        if stream_threshold_ns or default_threshold_ns:
            config["inactive_threshold"] = stream_threshold_ns or default_threshold_ns
    return config


def _normalize_delivery(config: Config, consumer_limits: Mapping[str, object]) -> Config:
    is_push = bool(text_at(config, "deliver_subject"))
    backoff = read(config, "backoff")
    if isinstance(backoff, (list, tuple)) and backoff:
        config["ack_wait"] = backoff[0]
    if config.get("ack_policy") == "flow_control":
        config |= {"flow_control": True, "idle_heartbeat": _NS_PER_S}
    has_acks = config.get("ack_policy", "none") != "none"
    if number_at(config, "ack_wait") == 0:
        config["ack_wait"] = 30 * _NS_PER_S if has_acks else 0
    config["max_ack_pending"] = _normalize_max_ack_pending(config, consumer_limits, has_acks)
    if number_at(config, "max_waiting") <= 0:
        config["max_waiting"] = 0 if is_push else 512
    is_pinned = config.get("priority_policy") == "pinned_client"
    if is_pinned and number_at(config, "priority_timeout") <= 0:
        config["priority_timeout"] = 120 * _NS_PER_S
    return config


def _normalize_max_ack_pending(
    config: Config, consumer_limits: Mapping[str, object], has_acks: bool
) -> int:
    requested_msgs = number_at(config, "max_ack_pending")
    if requested_msgs < 0:
        return -1
    stream_limit_msgs = number_at(consumer_limits, "max_ack_pending")
    return requested_msgs or stream_limit_msgs or (1000 if has_acks else 0)
