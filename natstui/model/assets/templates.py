"""Templates of common streams, as initial values of the creation form."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from natstui.model.assets.fields import Config

_NS_PER_S = 1_000_000_000
_DAY_NS = 86_400 * _NS_PER_S


class Template(Struct, frozen=True):
    """A named configuration; it may leave the name and subjects to the user."""

    name: str
    help: str
    config: Mapping[str, object]


BUILT_IN_TEMPLATES: tuple[Template, ...] = (
    Template(
        "work queue",
        "each message goes to one worker and is removed once it is acked",
        {"storage": "file", "retention": "workqueue", "discard": "new", "max_bytes": 1 << 30,
         "allow_direct": True},
    ),
    Template(
        "event log",
        "keeps events for a week, for any number of readers",
        {"storage": "file", "max_age": 7 * _DAY_NS, "max_bytes": 10 << 30, "compression": "s2",
         "deny_delete": True, "allow_direct": True},
    ),
    Template(
        "requests",
        "requests in memory on three servers, kept for 5 seconds",
        {"name": "REQUESTS", "subjects": ["users.requests"], "storage": "memory",
         "num_replicas": 3, "retention": "workqueue", "discard": "new", "max_age": 5 * _NS_PER_S,
         "duplicate_window": 5 * _NS_PER_S, "deny_delete": True, "allow_rollup_hdrs": False,
         "allow_direct": True},
    ),
    Template(
        "responses",
        "replies in memory on three servers, one message per subject",
        {"name": "RESPONSES", "subjects": ["users.responses.*"], "storage": "memory",
         "num_replicas": 3, "max_msgs_per_subject": 1, "max_age": 5 * _NS_PER_S,
         "duplicate_window": 5 * _NS_PER_S, "deny_delete": True, "allow_rollup_hdrs": False,
         "allow_direct": True},
    ),
    Template(
        "last value per key",
        "a table: the newest message of each subject",
        {"storage": "file", "max_msgs_per_subject": 1, "allow_rollup_hdrs": True,
         "allow_direct": True},
    ),
    Template(
        "mirror",
        "a copy of another stream that serves reads",
        {"storage": "file", "mirror": {"name": "ORIGIN"}, "allow_direct": True,
         "mirror_direct": True},
    ),
    Template(
        "dead letters",
        "messages that could not be processed, kept for a month",
        {"storage": "file", "max_age": 30 * _DAY_NS, "max_bytes": 1 << 30, "allow_direct": True},
    ),
)  # fmt: skip


def template_config(template: Template) -> Config:
    """Return a new configuration from a template; its name is empty if the template has none."""
    return {"name": "", **template.config}
