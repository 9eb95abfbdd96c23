"""Durations and sizes as text that loses nothing."""

from __future__ import annotations

_UNITS_NS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def exact_duration(duration_ns: int) -> str:
    """Return a duration with nothing lost: `2m`, `1d3h`, `1.5s`, `250ms`, `1ns`."""
    if duration_ns <= 0:
        return "0" if duration_ns == 0 else f"-{exact_duration(-duration_ns)}"
    seconds, rest_ns = divmod(duration_ns, 1_000_000_000)
    parts = []
    for unit, size_s in _UNITS_NS:
        amount, seconds = divmod(seconds, size_s)
        parts += [f"{amount}{unit}"] if amount else []
    for unit, size_ns in (("ms", 1_000_000), ("us", 1000), ("ns", 1)):
        amount, rest_ns = divmod(rest_ns, size_ns)
        parts += [f"{amount}{unit}"] if amount else []
    return "".join(parts)


def exact_bytes(size_bytes: int) -> str:
    """Return a size with nothing lost: `256MB`, `1000`."""
    for unit in ("", "KB", "MB", "GB", "TB", "PB"):
        if size_bytes < 1024 or size_bytes % 1024:
            return f"{size_bytes}{unit}"
        size_bytes //= 1024
    return f"{size_bytes}EB"
