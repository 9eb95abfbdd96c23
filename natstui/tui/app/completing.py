"""What the `:` command line offers while one types: commands, and the names that may follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.live.state import State
from natstui.tui.app.commands import COMMANDS, WORDS
from natstui.tui.kit.command_line import OfferingSuggester


class Completing(OfferingSuggester):
    """Completes the last word of a line by what stands in its place in the command's usage."""

    def __init__(self, state: Callable[[], State], themes: Callable[[], Iterable[str]]) -> None:
        # Not kept: streams come and go.
        super().__init__(use_cache=False, case_sensitive=True)
        self._state, self._themes = state, themes

    async def get_suggestion(self, value: str) -> str | None:
        """Return the line with its last word completed; None where nothing fits."""
        *before, _last = value.split(" ")
        found = next(iter(self.offers(value, 1)), None)
        return None if found is None else " ".join([*before, found])

    def offers(self, value: str, most_count: int) -> list[str]:
        """Return the words that the last one of a line may become, at most so many."""
        *before, last = value.split(" ")
        fitting = (one for one in self._names(before) if one.startswith(last))
        return list(islice(fitting, most_count))

    def _names(self, before: list[str]) -> Iterable[str]:
        """Return what may follow these words."""
        if not before:
            return WORDS
        usage = next((word.usage for word in COMMANDS if before[0] in word.names), "")
        places = usage.replace("[", "").replace("]", "").split()
        place = places[len(before) - 1] if len(before) <= len(places) else ""
        if place == "THEME":
            return sorted(self._themes())
        streams = self._state().streams.roster.rows_of_stream
        if place == "STREAM":
            return streams
        if place == "BUCKET":
            return (one.removeprefix(kind) for one in streams for kind in (KV, OBJECTS)
                    if one.startswith(kind))  # fmt: skip
        if place == "SUBJECT":
            known = self._state().stream_configurations.values()
            return sorted({subject for one in known for subject in one.subjects})
        if place == "CONSUMER":
            keys = self._state().consumers.roster.keys
            return (str(key[1]) for key in keys if key[0] == before[-1])
        return ()
