"""`INFO` → the use of the account and its limits."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from natstui.jetstream.decode_cluster import reading
from natstui.model.snapshot import Account


class _Limits(msgspec.Struct):
    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1


class _Api(msgspec.Struct):
    level: int = 0
    total: int = 0
    errors: int = 0
    inflight: int | None = None


class _Tier(msgspec.Struct):
    limits: _Limits


class _Account(msgspec.Struct):
    memory: int
    storage: int
    streams: int
    consumers: int
    limits: _Limits
    api: _Api
    domain: str = ""
    tiers: dict[str, _Tier] | None = None


_INFO = msgspec.json.Decoder(_Account)


def _sum(limits: Iterable[int]) -> int | None:
    """Add the limits of all tiers; unlimited in one is unlimited."""
    known = list(limits)
    return None if any(number < 0 for number in known) else sum(known)


def read_account(data: bytes) -> Account:
    """Read `INFO`; raise RequestFailed when it cannot be read."""
    with reading("INFO"):
        told = _INFO.decode(data)
    # A tiered account (R1, R3) has its limits in the tiers, and zeros in their place.
    limits = [tier.limits for tier in told.tiers.values()] if told.tiers else [told.limits]
    inflight = told.api.inflight
    if inflight is None and told.api.level >= 1:
        inflight = 0
    return Account(
        memory_bytes=told.memory,
        storage_bytes=told.storage,
        streams_count=told.streams,
        consumers_count=told.consumers,
        max_memory_bytes=_sum(one.max_memory for one in limits),
        max_storage_bytes=_sum(one.max_storage for one in limits),
        max_streams_count=_sum(one.max_streams for one in limits),
        max_consumers_count=_sum(one.max_consumers for one in limits),
        api_requests_count=told.api.total,
        api_errors_count=told.api.errors,
        api_inflight_count=inflight,
        api_level=told.api.level,
        domain=told.domain or None,
    )
