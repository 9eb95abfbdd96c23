"""The streams and consumers of the demo's shop, with every state that natstui can show."""

from __future__ import annotations

from collections.abc import Mapping

Config = Mapping[str, object]

_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS
_MIB = 1 << 20

MAX_ORDERS_MSGS = 3_000
INITIAL_RETURNS_MSGS = 150
INVOICES_MAX_BYTES = 2 * _MIB
_THREE_REPLICAS: Config = {"num_replicas": 3}
"""Configuration of streams that must survive the loss of one of three servers; the others have one
replica."""


def _placed_on(server: str) -> Config:
    return {"placement": {"tags": [server]}}


STREAMS: tuple[Config, ...] = (
    {
        "name": "ORDERS",
        **_THREE_REPLICAS,
        "description": "Every order of the shop; the newest 3,000 are kept",
        "subjects": ["orders.>"],
        "max_msgs": MAX_ORDERS_MSGS,
        "duplicate_window": 2 * _MINUTE_NS,
        "allow_direct": True,
        "metadata": {"team": "checkout", "tier": "gold"},
    },
    {
        "name": "PICKING",
        **_THREE_REPLICAS,
        "description": "What the warehouse has to pick: each job is done once",
        "subjects": [f"warehouse.pick.{size}.>" for size in ("small", "large", "pallet")],
        "retention": "workqueue",
        "max_msgs": 20_000,
        "max_age": 24 * 60 * _MINUTE_NS,
        "allow_direct": True,
    },
    {
        "name": "SIGNUPS",
        "description": "New customers, kept until everybody interested has seen them",
        "subjects": ["customers.signup.>"],
        "retention": "interest",
        "max_msgs": 10_000,
    },
    {
        "name": "PAYMENTS",
        **_THREE_REPLICAS,
        "description": "Card payments; some fail, and one in a while can never succeed",
        "subjects": ["payments.>"],
        "max_age": 15 * _MINUTE_NS,
        "max_msgs": 5_000,
        "allow_direct": True,
        "metadata": {"team": "finance", "pci": "yes"},
    },
    {
        "name": "RETURNS",
        **_THREE_REPLICAS,
        "description": "Parcels that customers send back",
        "subjects": ["returns.>"],
        "max_msgs": 20_000,
        "allow_direct": True,
    },
    {
        "name": "INVOICES",
        "description": "Archive that refuses more when it is full; tidied up when it nearly is",
        "subjects": ["invoices.>"],
        "discard": "new",
        "max_bytes": INVOICES_MAX_BYTES,
        "compression": "s2",
    },
    {
        "name": "TELEMETRY",
        **_placed_on("n3"),
        "description": "Scanner and shelf sensors of the last minute, in memory",
        "subjects": ["sensors.>"],
        "storage": "memory",
        "max_age": _MINUTE_NS,
        "max_bytes": 4 * _MIB,
        "max_msg_size": 4_096,
        "allow_direct": True,
    },
    {
        "name": "ORDERS_MIRROR",
        **_placed_on("n2"),
        "description": "Read-only copy of ORDERS for the analysts",
        "mirror": {"name": "ORDERS"},
        "max_msgs": 10_000,
        "mirror_direct": True,
    },
    {
        "name": "REPORTING",
        "description": "Paid orders and settled payments, gathered from two streams",
        "sources": [
            {"name": "ORDERS", "filter_subject": "orders.paid.>"},
            {"name": "PAYMENTS", "filter_subject": "payments.card.>"},
        ],
        "max_msgs": 10_000,
        "max_age": 24 * 60 * _MINUTE_NS,
    },
    {
        "name": "KV_carts",
        **_THREE_REPLICAS,
        "description": "Shopping carts, five revisions each",
        "subjects": ["$KV.carts.>"],
        "discard": "new",
        "max_msgs_per_subject": 5,
        "max_bytes": 8 * _MIB,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
    },
    {
        "name": "OBJ_receipts",
        "description": "Printed receipts, the newest dozen",
        "subjects": ["$O.receipts.C.>", "$O.receipts.M.>"],
        "discard": "new",
        "max_bytes": 16 * _MIB,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
    },
)


_DAY_NS = 86_400 * _SECOND_NS

STOREFRONT_SUBJECT = "deliver.storefront"
"""The deliver subject of the push consumer with a subscriber."""

_ORDERS_CONSUMERS: tuple[Config, ...] = (
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
        "deliver_subject": STOREFRONT_SUBJECT,
        "deliver_policy": "new",
        "ack_policy": "none",
        "flow_control": True,
        "idle_heartbeat": 5 * _SECOND_NS,
    },
    {
        "durable_name": "legacy-erp",
        "description": "Push consumer without a subscriber",
        "deliver_subject": "deliver.legacy-erp",
        "ack_policy": "explicit",
        "filter_subject": "orders.new.>",
    },
    {
        "durable_name": "shipping-labels",
        "description": "Pull consumer whose service was switched off",
        "ack_policy": "explicit",
        "filter_subject": "orders.paid.>",
    },
    {
        "durable_name": "loyalty-points",
        "description": "Its filter has a typo: no order has this subject",
        "ack_policy": "explicit",
        "filter_subject": "order.paid.>",
    },
)

_PICKING_CONSUMERS: tuple[Config, ...] = (
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

_SIGNUPS_CONSUMERS: tuple[Config, ...] = (
    {"durable_name": "crm-sync", "ack_policy": "explicit", "ack_wait": 30 * _SECOND_NS},
    {
        "durable_name": "welcome-mail",
        "ack_policy": "explicit",
        "filter_subject": "customers.signup.*.confirmed",
        "ack_wait": 30 * _SECOND_NS,
    },
)

_PAYMENTS_CONSUMERS: tuple[Config, ...] = (
    {
        "durable_name": "settlement",
        "description": "Some payments need a second try; a broken one is dropped after four",
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
    {
        "durable_name": "risk-score",
        "description": "Refuses a broken payment again and again, without a limit of deliveries",
        "ack_policy": "explicit",
        "ack_wait": 20 * _SECOND_NS,
        "filter_subject": "payments.card.>",
    },
)

_RETURNS_CONSUMERS: tuple[Config, ...] = (
    {
        "durable_name": "fraud-check",
        "description": "Stalled: receives messages and never acknowledges one",
        "ack_policy": "explicit",
        "ack_wait": _DAY_NS,
        "max_ack_pending": 64,
    },
)

CONSUMERS: Mapping[str, tuple[Config, ...]] = {
    "ORDERS": _ORDERS_CONSUMERS,
    "PICKING": _PICKING_CONSUMERS,
    "SIGNUPS": _SIGNUPS_CONSUMERS,
    "PAYMENTS": _PAYMENTS_CONSUMERS,
    "RETURNS": _RETURNS_CONSUMERS,
}
"""Stream → its durable consumers."""

DASHBOARD_CONSUMER: Config = {
    "description": "A dashboard that reads the sensors for a moment",
    "deliver_policy": "new",
    "ack_policy": "none",
    "filter_subject": "sensors.shelf.>",
    "inactive_threshold": 5 * _SECOND_NS,
}
"""Configuration of the ephemeral consumer on TELEMETRY, which is created again and again."""
