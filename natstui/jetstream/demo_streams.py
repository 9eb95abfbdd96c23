"""The streams of the demo's shop, as the server wants to hear them: one of each kind there is."""

from __future__ import annotations

from collections.abc import Mapping

Config = Mapping[str, object]

_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS
_MIB = 1 << 20

ORDERS_KEPT_MSGS = 3_000
RETURNS_AT_FIRST_MSGS = 150
INVOICES_MAX_BYTES = 2 * _MIB

STREAMS: tuple[Config, ...] = (
    {
        "name": "ORDERS",
        "description": "Every order of the shop; the newest 3,000 are kept",
        "subjects": ["orders.>"],
        "max_msgs": ORDERS_KEPT_MSGS,
        "duplicate_window": 2 * _MINUTE_NS,
        "allow_direct": True,
        "metadata": {"team": "checkout", "tier": "gold"},
    },
    {
        "name": "PICKING",
        "description": "What the warehouse has to pick: each job is done once",
        "subjects": ["warehouse.pick.>"],
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
        "description": "Card payments; some fail, and one in a while can never succeed",
        "subjects": ["payments.>"],
        "max_age": 15 * _MINUTE_NS,
        "max_msgs": 5_000,
        "allow_direct": True,
        "metadata": {"team": "finance", "pci": "yes"},
    },
    {
        "name": "RETURNS",
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
