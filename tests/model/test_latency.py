"""The histogram: within 1 %, merging exactly, readable by HdrHistogram tools."""

import base64
import math
import random
import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st

from natstui.model.bench import latency


@given(st.integers(0, 2**55))
def test_a_latency_comes_back_within_one_percent(latency_ns: int) -> None:
    bucket = latency.bucket_of(latency_ns)
    assert latency.bucket_low_ns(bucket) <= latency_ns <= latency.bucket_high_ns(bucket)
    assert abs(latency.bucket_middle_ns(bucket) - latency_ns) <= max(latency_ns * 0.01, 0)


@given(st.lists(st.integers(0, 10**12)), st.lists(st.integers(0, 10**12)))
def test_merging_is_the_histogram_of_all(left: list[int], right: list[int]) -> None:
    merged = latency.merge([latency.from_latencies(left), latency.from_latencies(right)])
    assert merged == latency.from_latencies(left + right)


def test_percentiles_of_a_known_distribution_are_within_the_bound() -> None:
    generator = random.Random(7)
    values = sorted(round(generator.lognormvariate(12, 2)) for _ in range(20_000))
    histogram = latency.from_latencies(values)
    for percent in (50, 90, 99, 99.9, 99.99, 100):
        true_ns = values[math.ceil(round(len(values) * percent / 100, 6)) - 1]
        read_ns = histogram.percentile_ns(percent)
        assert read_ns is not None
        assert abs(read_ns - true_ns) <= 0.01 * true_ns


def test_an_empty_histogram_knows_nothing() -> None:
    empty = latency.LatencyCounts()
    assert (empty.percentile_ns(50), empty.mean_ns, empty.max_ns) == (None, None, None)


def _read_back(encoded: str) -> dict[int, int]:
    """Decode as the HdrHistogram V2 format is written down, on our own."""
    raw = base64.b64decode(encoded)
    cookie, length = struct.unpack(">ii", raw[:8])
    assert cookie == 0x1C849314
    plain = zlib.decompress(raw[8 : 8 + length])
    cookie, size, offset, digits, lowest, _, ratio = struct.unpack(">iiiiqqd", plain[:40])
    assert (cookie, offset, digits, lowest, ratio) == (0x1C849313, 0, 2, 1, 1.0)
    counts, index, position = {}, 0, 40
    while position < 40 + size:
        value = shift = 0
        while True:
            byte = plain[position]
            position += 1
            if shift == 56:
                value |= byte << shift
                break
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        value = (value >> 1) ^ -(value & 1)
        if value < 0:
            index -= value
        else:
            counts[index] = value
            index += 1
    return counts


@given(st.dictionaries(st.integers(0, 6000), st.integers(1, 2**40), max_size=60))
def test_the_hdr_form_holds_every_bucket(counts: dict[int, int]) -> None:
    assert _read_back(latency.hdr_base64(latency.from_counts(counts))) == counts


def test_the_log_has_a_line_per_interval() -> None:
    histogram = latency.from_latencies([1_500_000])
    text = latency.hdr_log(1_000_000, [latency.TaggedInterval("e2e", 0, 1, histogram)])
    assert text.splitlines()[-1].startswith("Tag=e2e,0.000,1.000,1.50")
