"""Which moment is meant by what somebody types who asks what happened then."""

from __future__ import annotations

from datetime import datetime

import nats
import pytest

from natstui.tui.events.screen import moment_us, moment_words
from tests.accounts import Account
from tests.tui.viewer import viewing

NOW = datetime(2026, 11, 23, 14, 30, 20).astimezone()
NOW_US = round(NOW.timestamp() * 1e6)


@pytest.mark.parametrize("text", ["2m ago", "2m", " 120s ago ", "14:28:20"])
def test_two_minutes_ago_is_written_in_many_ways(text: str) -> None:
    assert moment_us(text, NOW_US) // 1_000_000 == NOW_US // 1_000_000 - 120


def test_a_time_of_day_is_the_last_one() -> None:
    assert moment_us("14:31", NOW_US) < NOW_US - 23 * 3_600_000_000
    assert 0 <= NOW_US - moment_us("14:30", NOW_US) <= 20_000_000


@pytest.mark.parametrize("text", ["", "soon", "25:00", "14:60", "m", "9" * 400 + "h ago"])
def test_what_is_no_time_is_told_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 2m ago or 14:30"):
        moment_us(text, NOW_US)


@pytest.mark.parametrize(("text", "words"), [("2m", "14:28:20"), ("14:30", "14:30:"), ("so", "")])
def test_what_is_typed_is_said_as_it_is_understood(text: str, words: str) -> None:
    assert words in moment_words(text, NOW_US)
    assert bool(moment_words(text, NOW_US)) == bool(words)


@pytest.mark.server
async def test_a_key_leads_to_what_happened_then(account: Account) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    async with viewing(account.url, size=(80, 24)) as viewer:
        await viewer.press("3")
        await js.add_stream(name="FIRST", subjects=["f"])
        await viewer.until(lambda: "FIRST" in viewer.text, "the first")
        first_us = viewer.app.state.happenings[-1].at_us
        await js.add_stream(name="SECOND", subjects=["s"])
        await viewer.until(lambda: "SECOND" in viewer.text, "the second")
        await viewer.press("t")
        await viewer.type("soon")
        await viewer.press("enter")
        await viewer.until(lambda: "is not a time" in viewer.words, "the reason")
        at = datetime.fromtimestamp(first_us / 1e6).astimezone().isoformat()
        await viewer.press("ctrl+u", *at)
        shown = datetime.fromtimestamp(first_us / 1e6).strftime("%Y-%m-%d %H:%M:%S")
        await viewer.until(lambda: shown in viewer.words, "what is understood")
        await viewer.press("enter")
        await viewer.until(lambda: viewer.table.table.cursor_key is not None, "the cursor")
        await viewer.until(lambda: viewer.table.table.cursor_key[0] == first_us, "the first")
        await viewer.press("t")
        await js.add_stream(name="THIRD", subjects=["t"])
        await viewer.until(lambda: "THIRD" in str(viewer.app.state.happenings[-1]), "the third")
        third_us = viewer.app.state.happenings[-1].at_us
        await viewer.until(lambda: viewer.app.state.now_at_us > third_us + 2_000_000, "a while")
        await viewer.type("1s ago")
        await viewer.press("enter")
        await viewer.until(lambda: viewer.table.table.cursor_key[0] == third_us, "from now on")
        await viewer.press("t")
        await viewer.type("2h ago")
        await viewer.press("enter")
        await viewer.until(lambda: "the oldest event here is from" in viewer.words, "how far back")
    await nc.close()
