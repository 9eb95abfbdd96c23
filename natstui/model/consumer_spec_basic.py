"""Options of a consumer: what it is called, what it reads and where it starts."""

from __future__ import annotations

from natstui.model.config_field import Field

BASIC = (
    Field(
        "name", "Name", "text", "Consumer",
        "No spaces, dots, * > / or \\; empty lets the server choose for an ephemeral one.",
        fixed="a consumer keeps its name",
    ),
    Field(
        "durable_name", "Durable", "text", "Consumer",
        "The same name again: it stays until it is deleted. Empty makes it ephemeral.",
        fixed="a durable consumer stays durable",
    ),
    Field(
        "description", "Description", "text", "Consumer",
        "For people: who consumes here, and what for.", default="", flag="description",
    ),
    Field(
        "filter_subjects", "Filters", "subjects", "Consumer",
        "Only messages of these subjects, separated by commas; empty is all.", flag="filter",
    ),
    Field(
        "ack_policy", "Ack policy", "choice", "Consumer",
        "explicit acks each message; all acks it and all before; none forgets once delivered.",
        default="none", choices=("explicit", "all", "none", "flow_control"), flag="ack",
        flag_add_only=True, fixed="the ack policy of a consumer cannot change",
    ),
    Field(
        "metadata", "Metadata", "metadata", "Consumer",
        "Your own key=value pairs, separated by commas.", flag="metadata",
    ),
)  # fmt: skip

START = (
    Field(
        "deliver_policy", "Deliver from", "choice", "Start",
        "Where it starts: all, new ones, the last, a sequence, a time, the last of each subject.",
        default="all",
        choices=("all", "new", "last", "last_per_subject", "by_start_sequence", "by_start_time"),
        flag="deliver", flag_add_only=True, fixed="the deliver policy of a consumer cannot change",
    ),
    Field(
        "opt_start_seq", "Start sequence", "count", "Start",
        "The first sequence, with by_start_sequence.",
        fixed="where a consumer started cannot change; reset it instead",
    ),
    Field(
        "opt_start_time", "Start time", "time", "Start",
        "The first moment, with by_start_time, as 2026-01-31T12:00:00Z.",
        fixed="where a consumer started cannot change; reset it instead",
    ),
    Field(
        "replay_policy", "Replay", "choice", "Start",
        "instant delivers as fast as asked; original keeps the pauses of the publishers.",
        default="instant", choices=("instant", "original"), flag="replay", flag_add_only=True,
        fixed="the replay policy of a consumer cannot change",
    ),
)  # fmt: skip
