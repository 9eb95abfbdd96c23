"""Changes of a key or a file: asked about, sent, and confirmed by its name where it is final."""

from __future__ import annotations

import json
from dataclasses import replace

from natstui.clean import clean_line
from natstui.model.records.messages import Answered
from natstui.model.records.stores import ChangeKey
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, answer_to, next_command_id
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe_copy


class KeyChanging:
    """Does one change at a time for a screen, which hands it each newer state."""

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self._sent: ChangeKey | None = None

    def ask(self, change: ChangeKey, does: str) -> None:
        """Say what will be done, and do it when that is wanted; `does` is a clause about it."""
        what = clean_line(f"{change.key} of {change.bucket}")
        words = (("do it", does), ("leave it", "nothing is changed"))

        def answered(word: str | None) -> None:
            if word == "do it":
                self.send(change)

        verb = change.action.partition("_")[0] if change.of_revision_seq is None else "revert"
        self._screen.app.push_screen(Pick(f"{verb} {what}?", words), answered)

    def send(self, change: ChangeKey) -> None:
        """Send it; what is final is asked again, with its name to type."""
        self._sent = replace(change, command_id=next_command_id())
        self._screen.app.post_message(Asked(self._sent))

    def take_state(self) -> Answered | None:
        """Return the answer when it has come, after telling it or asking for the name."""
        sent = self._sent
        if sent is None or (answer := answer_to(self._screen.state, sent.command_id)) is None:
            return None
        self._sent = None
        if answer.status == "refused" and answer.body_json and sent.confirmed is None:
            self._confirm(sent, answer)
        else:
            good = answer.status == "done"
            said = safe_copy(answer.text)
            self._screen.app.notify(said, severity="information" if good else "error")
        return answer

    def _confirm(self, sent: ChangeKey, answer: Answered) -> None:
        word = str(json.loads(answer.body_json or "{}")["type"])

        def typed(text: str | None) -> None:
            if text is not None:
                self.send(replace(sent, confirmed=text))

        question = answer.text.removeprefix("not confirmed: ")
        self._screen.app.push_screen(Prompt(question, word=word), typed)
