"""Options of a consumer that only pull consumers have, and those only push consumers have."""

from __future__ import annotations

from natstui.model.config_field import Field

PULL = (
    Field(
        "max_waiting", "Maximum waiting", "count", "Pull",
        "How many pull requests may wait at once.", default=512, flag="max-waiting",
        flag_add_only=True, fixed="the maximum of waiting pulls cannot change",
    ),
    Field(
        "max_batch", "Maximum batch", "count", "Pull",
        "A pull request may ask for so many messages.", flag="max-pull-batch",
    ),
    Field(
        "max_expires", "Maximum expires", "duration", "Pull",
        "A pull request may wait so long; at least 1ms.", flag="max-pull-expire",
    ),
    Field(
        "max_bytes", "Maximum bytes", "bytes", "Pull",
        "A pull request may ask for so many bytes.", flag="max-pull-bytes",
    ),
    Field(
        "priority_policy", "Priority policy", "choice", "Pull",
        "pinned_client: one at a time; overflow: only when behind; prioritized: lowest first.",
        default="none", choices=("none", "overflow", "pinned_client", "prioritized"),
        api_level_count=1,
    ),
    Field(
        "priority_groups", "Priority groups", "words", "Pull",
        "Groups that pulls name; up to 16 characters of A-Z a-z 0-9 - _ / =.", api_level_count=1,
    ),
    Field(
        "priority_timeout", "Pin timeout", "duration", "Pull",
        "A pinned client that does not pull for this long loses the pin.",
        api_level_count=1, flag="pinned-ttl", flag_add_only=True,
    ),
)  # fmt: skip

PUSH = (
    Field(
        "deliver_subject", "Deliver subject", "text", "Push",
        "The server sends messages here; empty makes it a pull consumer.", flag="target",
    ),
    Field(
        "deliver_group", "Deliver group", "text", "Push",
        "Subscribers of this queue group share the messages.", flag="deliver-group",
        flag_add_only=True,
    ),
    Field(
        "flow_control", "Flow control", "switch", "Push",
        "The server waits for a slow subscriber; needs a heartbeat.", default=False,
        flag="flow-control", flag_add_only=True, fixed="flow control of a consumer cannot change",
    ),
    Field(
        "idle_heartbeat", "Idle heartbeat", "duration", "Push",
        "A sign of life when nothing is delivered; at least 100ms.", flag="heartbeat",
        flag_add_only=True, fixed="the heartbeat of a consumer cannot change",
    ),
    Field(
        "rate_limit_bps", "Rate limit", "count", "Push",
        "At most so many bits per second.", flag="bps", flag_add_only=True,
    ),
)  # fmt: skip
