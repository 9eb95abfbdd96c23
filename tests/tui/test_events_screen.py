"""What happened, as the events table tells it."""

from __future__ import annotations

import pytest

from natstui.model.live.state import EventRecord, State
from natstui.model.records.record import Advisory, Noted, Restored, Unavailable
from natstui.tui.consumers.detail import ConsumerDetail
from natstui.tui.events.cells import EVENT_COLUMNS, FoldedEvents, short_event_text
from natstui.tui.frame.recent_events import (
    event_asset_text,
    event_kind_text,
    event_style,
    event_text,
)
from natstui.tui.streams.detail import StreamDetail
from natstui.values import replace
from tests.tui.engine_records import engine_records
from tests.tui.viewer import fed


def advisory(text: str, consumer: str | None = "c", kind: str = "nak") -> Advisory:
    return Advisory(0, kind, "S", consumer, text, "{}")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            advisory("message 7 of consumer c on S was refused (nak)"),
            "message 7 refused (nak)",
        ),
        (advisory("consumer c on S was deleted"), "consumer deleted"),
        (advisory("stream S was created", None), "stream created"),
        (advisory("streams are well", None), "streams are well"),
        (Noted(0, "stream S was slow"), "stream S was slow"),
    ],
)
def test_names_that_stand_beside_a_sentence_are_not_told_again(
    event: EventRecord, text: str
) -> None:
    assert short_event_text(event) == text


def test_what_happens_again_and_again_is_one_row_with_its_last_minute() -> None:
    minute_us = 60_000_000
    naks = [advisory("message 7 of consumer c on S was refused (nak)") for _ in range(40)]
    naks = [replace(one, at_us=minute_us + at) for at, one in enumerate(naks)]
    others = (advisory("consumer c on S was deleted", kind="consumer_action"), Noted(1, "so"))
    state = replace(State(), recent_events=(*others, *naks), now_at_us=minute_us + 100)
    view = FoldedEvents(state, 0)
    kinds = [[spec.cell(view, row).text for spec in EVENT_COLUMNS[1:3]] for row in view.rows()]
    assert kinds == [["nak", "×40"], ["note", ""], ["consumer action", ""]]
    assert EVENT_COLUMNS[2].sort(view)[view.rows()[0]] == 40
    assert sum(view.last_minute_counts(view.rows()[0])) == 40
    again = FoldedEvents(replace(state, recent_events=(*state.recent_events, naks[0])), 0)
    assert again.key(again.rows()[0]) == view.key(view.rows()[0]), "the cursor stays on it"
    assert len(EVENT_COLUMNS[0].sort(view)) == len(view), "sorted by what may be filtered later"


@pytest.mark.parametrize(
    ("event", "kind", "text", "of_look"),
    [
        (Unavailable(0, "STREAM.LIST", "no permission"), "unavailable", "no permission", "warn"),
        (Restored(1, "STREAM.LIST"), "restored", "can be read again", ""),
    ],
)
def test_what_cannot_be_read_and_can_be_again_is_told(
    event: EventRecord, kind: str, text: str, of_look: str
) -> None:
    assert (event_kind_text(event), event_asset_text(event)) == (kind, "STREAM.LIST")
    assert event_text(event) == short_event_text(event) == text
    assert event_style(event) == of_look


async def test_a_sentence_is_whole_at_80_columns_and_enter_leads_to_what_it_is_about() -> None:
    events = (
        Advisory(
            1, "stream_action", "PAYMENTS", None, "stream PAYMENTS was created", "{}"
        ),
        Advisory(
            2, "consumer_action", "PAYMENTS", "settlement",
            "consumer settlement on PAYMENTS was created", "{}",
        ),
    )  # fmt: skip
    records = engine_records({"PAYMENTS": ("settlement",)})
    async with fed(*records, *events, size=(80, 24), first="events") as viewer:
        await viewer.until(lambda: "stream created" in viewer.words, "the stream")
        assert "consumer created" in viewer.words
        assert "PAYMENTS › settlement" in viewer.words
        await viewer.press("slash")
        await viewer.type("settlement")
        await viewer.press("enter", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail), "the consumer")
        await viewer.press("escape", "escape", "slash")
        await viewer.type("stream created")
        await viewer.press("enter", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamDetail), "the stream")


async def test_where_most_is_of_one_kind_a_hint_says_how_to_see_the_rest() -> None:
    naks = [
        replace(
            advisory(f"message 1 of consumer c on S was refused (nak) at delivery {n}"), at_us=n
        )
        for n in range(1, 7)
    ]
    others = (
        advisory("stream S was created", None, "stream_action"),
        advisory("consumer c on S was created", kind="consumer_action"),
    )
    async with fed(*engine_records(), *others, *naks, first="events") as viewer:
        await viewer.until(lambda: "nak ×6" in viewer.words, "one row of them")
        assert "repeats are folded: f shows each" in viewer.words
        await viewer.press("f")
        await viewer.until(lambda: "are nak: /!nak shows the others" in viewer.words, "the hint")
        await viewer.press("slash")
        await viewer.type("!nak")
        await viewer.press("enter")
        await viewer.until(
            lambda: "stream created" in viewer.words and "at delivery" not in viewer.words
        )
        assert "shows the others" not in viewer.words
