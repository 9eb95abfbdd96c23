"""A log-linear histogram of latencies that merges exactly, and its HdrHistogram export.

Buckets are those of HdrHistogram with two significant digits and a unit of 1 ns: 128 per power
of two, so the error of a value is below 1 %. Histograms merge by adding counts, so percentiles
over many workers are as exact as over one.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Mapping
from itertools import pairwise

from msgspec import Struct

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
"""Name in checks, JSON and tables → computed percentile."""
SHOWN_PERCENTILES = ("p50", "p90", "p99", "p999")
"""Percentiles on the screen, in a summary and in a report."""
SAMPLED_PERCENTILES = ("p50", "p99")
"""Percentiles of a consumer's sampled acks, beside the longest time."""
COMPARED_PERCENTILES = ("p50", "p99", "p999")
"""Percentiles in comparisons of benchmarks."""

_BUCKETS_PER_POWER_OF_TWO = 128
"""Buckets per power of two."""
BUCKETS_COUNT = 8192
"""Number of buckets, enough for every latency in a 64-bit number."""
_HDR_COOKIE = 0x1C849303 | 0x10
_HDR_COMPRESSED_COOKIE = 0x1C849304 | 0x10


def bucket_of(latency_ns: int) -> int:
    """Return the index of the bucket of a latency; a negative latency counts as 0."""
    value = max(latency_ns, 0)
    shift = max(value.bit_length() - 8, 0)
    return (shift << 7) + (value >> shift)


def bucket_low_ns(bucket: int) -> int:
    """Return the smallest latency of a bucket."""
    if bucket < 2 * _BUCKETS_PER_POWER_OF_TWO:
        return bucket
    shift = (bucket >> 7) - 1
    return (_BUCKETS_PER_POWER_OF_TWO + (bucket & 127)) << shift


def bucket_high_ns(bucket: int) -> int:
    """Return the largest latency of a bucket."""
    return bucket_low_ns(bucket + 1) - 1


def bucket_middle_ns(bucket: int) -> int:
    """Return the latency in the middle of a bucket, with an error of at most 0.4 %."""
    return (bucket_low_ns(bucket) + bucket_high_ns(bucket)) // 2


class LatencyCounts(Struct, frozen=True):
    """A histogram, or an addition to one, as two columns with ascending buckets."""

    buckets: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def total_count(self) -> int:
        """Return the number of latencies."""
        return sum(self.counts)

    def percentile_ns(self, percent: float) -> int | None:
        """Return the latency in ns that `percent` % of all latencies do not exceed.

        None when empty.
        """
        total = self.total_count
        if not total:
            return None
        # Rounded first: 0.99 × 200 must be 198 and not 198.00000000000003.
        rank = max(math.ceil(round(percent / 100 * total, 6)), 1)
        cumulative_count = 0
        for bucket, count in zip(self.buckets, self.counts, strict=True):
            cumulative_count += count
            if cumulative_count >= rank:
                return bucket_middle_ns(bucket)
        return None

    @property
    def mean_ns(self) -> float | None:
        """Return the mean latency in ns, from the middles of buckets; None when empty."""
        if not self.counts:
            return None
        pairs = zip(self.buckets, self.counts, strict=True)
        return sum(bucket_middle_ns(bucket) * count for bucket, count in pairs) / self.total_count

    @property
    def max_ns(self) -> int | None:
        """Return the middle of the highest bucket in ns; None when empty."""
        return bucket_middle_ns(self.buckets[-1]) if self.buckets else None


EMPTY_HISTOGRAM = LatencyCounts()


def is_valid_histogram(histogram: LatencyCounts) -> bool:
    """Return whether a histogram is valid: buckets ascend and exist, and counts are positive."""
    buckets, counts = histogram.buckets, histogram.counts
    is_ascending = all(low < high for low, high in pairwise(buckets))
    are_in_range = not buckets or (buckets[0] >= 0 and buckets[-1] < BUCKETS_COUNT)
    return (
        len(buckets) == len(counts)
        and is_ascending
        and are_in_range
        and min(counts, default=1) > 0
    )


def from_counts(count_by_bucket: Mapping[int, int]) -> LatencyCounts:
    """Return the histogram of a mapping bucket → count, without empty buckets."""
    bucket_and_count_pairs = sorted(
        (bucket, count) for bucket, count in count_by_bucket.items() if count
    )
    return LatencyCounts(
        tuple(bucket for bucket, _ in bucket_and_count_pairs),
        tuple(count for _, count in bucket_and_count_pairs),
    )


def from_latencies(latencies_ns: Iterable[int]) -> LatencyCounts:
    """Return the histogram of latencies in ns."""
    count_by_bucket: dict[int, int] = {}
    for latency_ns in latencies_ns:
        bucket = bucket_of(latency_ns)
        count_by_bucket[bucket] = count_by_bucket.get(bucket, 0) + 1
    return from_counts(count_by_bucket)


def merge(histograms: Iterable[LatencyCounts]) -> LatencyCounts:
    """Return one histogram of the latencies of all `histograms`."""
    non_empty_histograms = [histogram for histogram in histograms if histogram.buckets]
    if len(non_empty_histograms) < 2:
        return non_empty_histograms[0] if non_empty_histograms else EMPTY_HISTOGRAM
    count_by_bucket: dict[int, int] = {}
    for histogram in non_empty_histograms:
        for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
            count_by_bucket[bucket] = count_by_bucket.get(bucket, 0) + count
    return from_counts(count_by_bucket)


def _encode_zigzag(value: int) -> bytes:
    """Return a number encoded as in HdrHistogram: ZigZag, 7 bits per byte, at most 9 bytes."""
    remaining_bits = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while remaining_bits > 0x7F and len(encoded) < 8:
        encoded.append((remaining_bits & 0x7F) | 0x80)
        remaining_bits >>= 7
    encoded.append(remaining_bits)
    return bytes(encoded)


def hdr_base64(histogram: LatencyCounts) -> str:
    """Return the histogram in the format of HdrHistogram: V2, compressed, base64."""
    encoded_counts = bytearray()
    next_bucket = 0
    for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
        if bucket > next_bucket:
            encoded_counts += _encode_zigzag(next_bucket - bucket)
        encoded_counts += _encode_zigzag(count)
        next_bucket = bucket + 1
    highest_ns = max(bucket_high_ns(next_bucket), 2 * 2 * _BUCKETS_PER_POWER_OF_TWO)
    header = struct.pack(">iiiiqqd", _HDR_COOKIE, len(encoded_counts), 0, 2, 1, highest_ns, 1.0)
    compressed_bytes = zlib.compress(header + bytes(encoded_counts))
    return base64.b64encode(
        struct.pack(">ii", _HDR_COMPRESSED_COOKIE, len(compressed_bytes)) + compressed_bytes
    ).decode()


class TaggedInterval(Struct, frozen=True):
    """A line of a histogram log: a tag, an interval, and its histogram."""

    tag: str
    start_s: float
    """Seconds since the log's base time."""
    length_s: float
    histogram: LatencyCounts


def hdr_log(base_at_us: int, intervals: Iterable[TaggedInterval]) -> str:
    """Return an HdrHistogram log (format 1.3), latencies in ns, one line per interval and tag."""
    lines = [
        "#[Logged with natstui]",
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {base_at_us / 1e6:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for interval in intervals:
        max_ms = (interval.histogram.max_ns or 0) / 1e6
        line_start = (
            f"Tag={interval.tag},{interval.start_s:.3f},{interval.length_s:.3f},{max_ms:.3f}"
        )
        lines.append(f"{line_start},{hdr_base64(interval.histogram)}")
    return "\n".join(lines) + "\n"
