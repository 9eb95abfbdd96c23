"""What the server makes of a configuration: absent keys get its defaults, some switch others on.

Two configurations that normalise to the same are the same to the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from natstui.model.config_field import (
    Config,
    Field,
    is_on,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
    without_server_metadata,
    written,
)
from natstui.model.stream_spec import STREAM_FIELDS

_S = 1_000_000_000
_UNLIMITED_BELOW_ONE = (
    "max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size",
)  # fmt: skip


def with_defaults(config: Config, fields: Sequence[Field]) -> Config:
    """Return the configuration with the server's default for each absent field."""
    for field in fields:
        if field.default is not None and read(config, field.path) is None:
            config = written(config, field.path, field.default)
    return config


def without_empty(config: Config) -> Config:
    """Return the configuration without keys whose value says nothing."""
    empty: tuple[object, ...] = ("", [], (), {}, None)
    config = dict(config)
    for path in ("placement", "republish"):
        inner = config.get(path)
        if isinstance(inner, Mapping):
            config[path] = {key: value for key, value in inner.items() if value}
    return {key: value for key, value in config.items() if value not in empty}


def normal_stream(config: Mapping[str, object]) -> Config:
    """Return a stream's configuration as the server would keep it, its own metadata left out."""
    normal = without_empty(without_server_metadata(config))
    upstream = "mirror" in normal or "sources" in normal
    if not upstream and not strings_at(normal, "subjects"):
        normal["subjects"] = [text_at(normal, "name")]
    if number_at(normal, "duplicate_window") == 0:
        normal["duplicate_window"] = 0 if upstream else _default_window_ns(normal)
    for path in _UNLIMITED_BELOW_ONE:
        if number_at(normal, path) <= 0:
            normal[path] = -1
    if number_at(normal, "num_replicas") == 0:
        normal["num_replicas"] = 1
    if isinstance(normal.get("republish"), Mapping) and not text_at(normal, "republish.src"):
        normal = written(normal, "republish.src", ">")
    return _switched(with_defaults(_tidy_upstreams(normal), STREAM_FIELDS))


def _default_window_ns(config: Config) -> int:
    age_ns = number_at(config, "max_age")
    return min(age_ns, 120 * _S) if age_ns > 0 else 120 * _S


def _switched(config: Config) -> Config:
    """Return the configuration with what other settings switch on."""
    if number_at(config, "subject_delete_marker_ttl") > 0:
        config |= {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "deny_purge": False}
    if is_on(config, "allow_msg_schedules"):
        config |= {"allow_rollup_hdrs": True, "deny_purge": False}
    if is_on(config, "sealed"):
        config |= {"discard": "new", "deny_delete": True, "deny_purge": True}
    return config


def _tidy_upstreams(config: Config) -> Config:
    if isinstance(config.get("mirror"), Mapping):
        config["mirror"] = _tidy_source(dict(objects_at({"m": [config["mirror"]]}, "m")[0]))
    if "sources" in config:
        config["sources"] = [_tidy_source(source) for source in objects_at(config, "sources")]
    return config


def _tidy_source(source: Config) -> Config:
    if isinstance(source.get("external"), Mapping) and not text_at(source, "external.deliver"):
        source = written(source, "external.deliver", None)
    return without_empty(source)
