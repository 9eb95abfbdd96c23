"""Which polls a tier keeps."""

from natstui.model.live.history import STREAM_COLUMNS, History
from natstui.model.live.known_rows import AssetRows
from natstui.model.live.snapshot import StreamColumns


def times_taken_us(first_s: int, window_s: int) -> set[int]:
    """Fold one poll a second from `first_s` and return when a tier's samples were taken."""
    history = History(STREAM_COLUMNS)
    for second in range(first_s, 500):
        history = history.after(AssetRows(StreamColumns()), second * 1_000_000, 0)
    tier = next(tier for tier in history.tiers if tier.window_s == window_s)
    return {sample.mono_us for sample in tier.samples}


def test_a_tier_takes_the_same_polls_whenever_somebody_began_to_watch() -> None:
    early, late = times_taken_us(0, 900), times_taken_us(301, 900)
    assert {t for t in early if t > 301_000_000} == {t for t in late if t > 301_000_000}
    assert len({t for t in early if t > 301_000_000}) == 33
