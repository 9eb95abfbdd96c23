"""The consumers of the demo's shop: every state a monitor must be able to show."""

from __future__ import annotations

from collections.abc import Mapping

Config = Mapping[str, object]

_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS

LIVE_SUBJECT = "deliver.storefront"
"""Where the push consumer with a subscriber delivers."""

_ORDERS: tuple[Config, ...] = (
    {
        "durable_name": "billing",
        "description": "Healthy; every acknowledgement is sampled",
        "filter_subject": "orders.new.>",
        "ack_policy": "explicit",
        "ack_wait": 30 * _SECOND_NS,
        "max_ack_pending": 500,
        "sample_freq": "100",
    },
    {
        "durable_name": "newsletter",
        "description": "Paused until the campaign starts",
        "filter_subject": "orders.paid.>",
        "ack_policy": "explicit",
        "pause_until": "2099-12-31T23:00:00Z",
    },
    {
        "durable_name": "storefront",
        "description": "Push, with a subscriber",
        "deliver_subject": LIVE_SUBJECT,
        "deliver_policy": "new",
        "ack_policy": "none",
        "flow_control": True,
        "idle_heartbeat": 5 * _SECOND_NS,
    },
    {
        "durable_name": "legacy-erp",
        "description": "Push, and nobody listens any more",
        "deliver_subject": "deliver.legacy-erp",
        "ack_policy": "explicit",
        "filter_subject": "orders.new.>",
    },
)

_PICKING: tuple[Config, ...] = (
    {
        "durable_name": "pickers-small",
        "description": "Two workers share it and keep up",
        "filter_subject": "warehouse.pick.small.>",
        "ack_policy": "explicit",
        "ack_wait": 30 * _SECOND_NS,
        "max_waiting": 64,
    },
    {
        "durable_name": "pickers-large",
        "description": "One slow worker: the backlog grows until another shift helps out",
        "filter_subject": "warehouse.pick.large.>",
        "ack_policy": "explicit",
        "ack_wait": 60 * _SECOND_NS,
        "max_waiting": 64,
    },
)

_SIGNUPS: tuple[Config, ...] = (
    {"durable_name": "crm-sync", "ack_policy": "explicit", "ack_wait": 30 * _SECOND_NS},
    {
        "durable_name": "welcome-mail",
        "ack_policy": "explicit",
        "filter_subject": "customers.signup.*.confirmed",
        "ack_wait": 30 * _SECOND_NS,
    },
)

_PAYMENTS: tuple[Config, ...] = (
    {
        "durable_name": "settlement",
        "description": "Some payments need a second try; a broken one is given up after four",
        "ack_policy": "explicit",
        "ack_wait": 20 * _SECOND_NS,
        "max_deliver": 4,
        "sample_freq": "25",
    },
    {
        "durable_name": "ledger",
        "description": "Acknowledges a batch with its last message",
        "ack_policy": "all",
        "ack_wait": 60 * _SECOND_NS,
        "filter_subject": "payments.card.>",
    },
)

_RETURNS: tuple[Config, ...] = (
    {
        "durable_name": "fraud-check",
        "description": "Stalled: takes messages and never acknowledges one",
        "ack_policy": "explicit",
        "ack_wait": _DAY_NS,
        "max_ack_pending": 64,
    },
)

CONSUMERS: Mapping[str, tuple[Config, ...]] = {
    "ORDERS": _ORDERS,
    "PICKING": _PICKING,
    "SIGNUPS": _SIGNUPS,
    "PAYMENTS": _PAYMENTS,
    "RETURNS": _RETURNS,
}
"""Stream → the durable consumers it has."""

DASHBOARD: Config = {
    "description": "Somebody looks at the sensors for a moment",
    "deliver_policy": "new",
    "ack_policy": "none",
    "filter_subject": "sensors.shelf.>",
    "inactive_threshold": 5 * _SECOND_NS,
}
"""The ephemeral consumer on TELEMETRY that comes and goes."""
