"""Decodes `INFO` to the use of the account and its limits."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from natstui.decoding import decoder_of
from natstui.jetstream.connection.replies import Count, Limit, raise_unreadable
from natstui.model.live.snapshot import Account


class _AccountLimits(msgspec.Struct):
    max_memory: Limit = -1
    max_storage: Limit = -1
    max_streams: Limit = -1
    max_consumers: Limit = -1


class _Api(msgspec.Struct):
    level: Count = 0
    total: Count = 0
    errors: Count = 0
    inflight: Count | None = None


class _AccountTier(msgspec.Struct):
    limits: _AccountLimits


class _Account(msgspec.Struct):
    memory: Count
    storage: Count
    streams: Count
    consumers: Count
    limits: _AccountLimits
    api: _Api
    domain: str = ""
    tiers: dict[str, _AccountTier] | None = None


_INFO = decoder_of(_Account)


def _sum_limits(limits: Iterable[int]) -> int | None:
    """Return the sum of the limits of all tiers; None if any is unlimited."""
    all_limits = list(limits)
    return None if any(number < 0 for number in all_limits) else sum(all_limits)


class _AssetCounts(msgspec.Struct):
    streams: Count
    consumers: Count


_ASSET_COUNTS = decoder_of(_AssetCounts)


def read_asset_counts(data: bytes) -> tuple[int, int]:
    """Return the numbers of streams and consumers in the reply to `INFO`, whatever its use and
    limits are; raises RequestFailed if they are unreadable.
    """
    with raise_unreadable("INFO"):
        counts = _ASSET_COUNTS.decode(data)
    return counts.streams, counts.consumers


def read_account(data: bytes) -> Account:
    """Decode the reply to `INFO`; raises RequestFailed if it is unreadable."""
    with raise_unreadable("INFO"):
        info = _INFO.decode(data)
    # A tiered account (R1, R3) has its limits in the tiers, and zeros outside.
    limits = [tier.limits for tier in info.tiers.values()] if info.tiers else [info.limits]
    inflight = info.api.inflight
    if inflight is None and info.api.level >= 1:
        inflight = 0
    return Account(
        memory_bytes=info.memory,
        storage_bytes=info.storage,
        streams_count=info.streams,
        consumers_count=info.consumers,
        max_memory_bytes=_sum_limits(limit.max_memory for limit in limits),
        max_storage_bytes=_sum_limits(limit.max_storage for limit in limits),
        max_streams_count=_sum_limits(limit.max_streams for limit in limits),
        max_consumers_count=_sum_limits(limit.max_consumers for limit in limits),
        api_requests_count=info.api.total,
        api_errors_count=info.api.errors,
        api_inflight_count=inflight,
        api_level=info.api.level,
        domain=info.domain or None,
    )
