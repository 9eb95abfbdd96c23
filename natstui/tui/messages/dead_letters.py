"""The dead letters screen: messages dropped after max deliver, and delivering them again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.subjects import is_valid_subject
from natstui.model.live.state import State
from natstui.model.records.copies import (
    DroppedMessages,
    FindDroppedMessages,
    PreviewResend,
    ResendMessages,
    ResendPreview,
)
from natstui.model.records.messages import Answered
from natstui.model.records.record import Advisory
from natstui.tui.frame.action_keys import SEND_AGAIN, Target
from natstui.tui.frame.action_runner import choose_action
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.confirmation import request_and_show_reply
from natstui.tui.frame.live import (
    NO_SERVER,
    CommandPrompt,
    LiveScreen,
    ScreenPart,
    poll_rows_first,
    prompt_command,
)
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.pick import CANCEL_OPTION, PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe_copy
from natstui.tui.messages.cells import STORED_COLUMNS, StoredMessagesView
from natstui.tui.messages.message import MessageScreen
from natstui.units import bytes_text, counted

_preview_decoder = decoder_of(ResendPreview)
_MAX_LISTED_SUBJECTS = 5


async def send_messages_again(
    screen: LiveScreen,
    stream: str,
    seqs_by_label: Mapping[str, tuple[int, ...]],
    dead_letters: DroppedMessages,
) -> None:
    """Prompt for the messages and the subject, show the effects, and send the messages again.

    `seqs_by_label` has the offered sets of messages: label → sequences.
    """
    app, engine = screen.app, screen.engine
    labels = [(label, _seq_range_text(seqs)) for label, seqs in seqs_by_label.items()]
    label = await app.push_screen_wait(PickDialog("Send which messages again?", labels))
    if label is None:
        return
    title = (
        "To which subject? Empty: each to its own subject, where all its consumers receive it "
        "again"
    )
    subject = await app.push_screen_wait(Prompt(title, refusal=_subject_refusal))
    if subject is None:
        return
    preview_command = PreviewResend(
        0,
        stream,
        seqs_by_label[label],
        dead_letters.created_at_us,
        dead_letters.newest,
        subject.strip() or None,
    )
    reply = await engine.request(preview_command)
    if reply.body_json is None:
        app.notify(safe_copy(reply.text), severity="error", timeout=15)
        return
    preview = _preview_decoder.decode(reply.body_json)
    if not preview.messages_count:
        app.notify("none of these messages is stored any more", severity="warning")
        return
    options = [CANCEL_OPTION, ("send", "store them again")]
    effects = preview_lines(preview, are_acks_known=dead_letters.is_known)
    pick = PickDialog(send_again_prompt(preview_command, preview), options, effects)
    if await app.push_screen_wait(pick) != "send":
        return
    command = ResendMessages(
        0,
        stream,
        preview_command.sequences,
        preview_command.created_at_us,
        preview_command.newest,
        preview_command.to_subject,
    )
    await request_and_show_reply(screen, command, engine, "Sent again")


def _subject_refusal(text: str) -> str:
    """Return the reason why a text is no valid subject to publish to; else an empty text."""
    text = text.strip()
    fits = not text or (is_valid_subject(text) and "*" not in text and ">" not in text)
    return "" if fits else f"{text!r} is not a valid subject to publish to"


def send_again_prompt(command: PreviewResend, preview: ResendPreview) -> str:
    """Return the text of the prompt before messages are sent again."""
    messages_text = counted(f"{preview.messages_count:,}", "message")
    target_text = f"to {command.to_subject}" if command.to_subject else "to their own subjects"
    size = bytes_text(preview.payload_bytes)
    return clean_line(f"Send {messages_text} of {command.stream} ({size}) {target_text}?")


def preview_lines(preview: ResendPreview, *, are_acks_known: bool) -> list[str]:
    """Return lines about the effects of sending messages again."""
    lines = [
        f"{count:,} {subject} → {stream or 'refused: no stream stores this subject'}"
        for subject, count, stream in preview.subjects[:_MAX_LISTED_SUBJECTS]
    ]
    unlisted_subjects_count = preview.other_subjects_count + len(
        preview.subjects[_MAX_LISTED_SUBJECTS:]
    )
    lines += (
        [f"and {counted(unlisted_subjects_count, 'more subject')}"]
        if unlisted_subjects_count
        else []
    )
    lines += (
        [f"{preview.gone_count:,} are no longer stored and were not sent"]
        if preview.gone_count
        else []
    )
    lines += [preview.loses] if preview.loses else []
    if not are_acks_known:
        lines.append("some may have been acknowledged meanwhile; which ones is unknown")
    return [clean_line(line) for line in lines]


def _seq_range_text(seqs: tuple[int, ...]) -> str:
    return f"{seqs[0]}" if len(seqs) == 1 else f"{seqs[0]}…{seqs[-1]}"


_dropped_messages_decoder = decoder_of(DroppedMessages)
_MAX_DROPPED_MSGS = 2_000


def find_dropped_messages(state: State, stream: str, consumer: str) -> tuple[tuple[int, int], ...]:
    """Return time in µs and sequence of each dropped message whose advisory was received."""
    evidence = state.evidence.entries.get((stream, consumer))
    counts = evidence.give_ups if evidence is not None else None
    dropped_messages = (
        [(counts.last_at_us, message.stream_seq) for message in counts.messages] if counts else []
    )
    for event in state.recent_events:
        if not isinstance(event, Advisory) or event.type != "max_deliver":
            continue
        if (event.stream, event.consumer) == (stream, consumer):
            seq = json.loads(event.body_json).get("stream_seq")
            dropped_messages += [(event.at_us, seq)] if isinstance(seq, int) else []
    return tuple(dropped_messages[-_MAX_DROPPED_MSGS:])


class DeadLetterFinder(ScreenPart):
    """Requests the messages that a consumer dropped after max deliver; stores the last result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "part('looking', 'recording')", "Recording", id="dead.recording"),
        Binding("ctrl+r,f5", "part('looking', 'ask')", "Refresh", show=False, id="dead.refresh"),
    ]

    def __init__(self, screen: LiveScreen, stream: str, consumer: str) -> None:
        self._screen, self._stream, self._consumer = screen, stream, consumer
        self.result: DroppedMessages | None = None
        self.problem = ""
        self.sessions: tuple[str, ...] = ()
        self.view = StoredMessagesView(())

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: not in a replay, which has no server."""
        return self._screen.state.replay is None

    def action_ask(self) -> None:
        """Request the dropped messages again."""
        run_task(self._screen, self._request_messages, replaces="find")

    async def _request_messages(self) -> None:
        self._show(await self._screen.engine.request(self.command(self.sessions)))

    def action_recording(self) -> None:
        """Prompt for recordings in which dropped messages are searched too."""

        def to_command(text: str) -> FindDroppedMessages:
            return self.command(tuple(text.split()))

        title = "Search which recordings? Names separated by spaces, or last; empty: none"
        text = " ".join(self.sessions)
        prompt_command(self._screen, CommandPrompt(title, to_command, text=text, show=self._show))

    def command(self, sessions: tuple[str, ...]) -> FindDroppedMessages:
        """Return the command that finds the dropped messages, also in these recordings."""
        self.sessions = sessions
        dropped_messages = find_dropped_messages(self._screen.state, self._stream, self._consumer)
        return FindDroppedMessages(0, self._stream, self._consumer, dropped_messages, sessions)

    def _show(self, reply: Answered) -> None:
        if reply.body_json is None:
            self.problem = clean_line(reply.text)
        else:
            self.problem, self.result = "", _dropped_messages_decoder.decode(reply.body_json)
            self.view = StoredMessagesView(self.result.messages)
        self._screen.refresh_state()

    def caption(self, shown: int, total: int) -> str:
        """Return a text with the numbers of dropped messages and of those not listed or not stored
        any more, and the remark or error of the search.
        """
        if (result := self.result) is None:
            return self.problem or "searching …"
        count = f"{shown} of {total}" if shown != total else str(total)
        # Without knowledge of acks, some of the messages may have been acked.
        parts = [f"{count} dropped" if result.is_known else f"{count} PERHAPS dropped"]
        unlisted_count = len(result.sequences) - len(result.messages) - result.gone_count
        parts += [f"{unlisted_count:,} more are not listed"] if unlisted_count > 0 else []
        parts += [f"{result.gone_count:,} gone"] if result.gone_count else []
        return "  ·  ".join([*parts, clean_line(self.problem or result.remark)])


class DeadLettersScreen(TableScreen):
    """The messages that a consumer dropped, as far as advisories or recordings list them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        SEND_AGAIN.menu_binding(),
        Binding("m", "browse", "In the stream", id="dead.browse"),
        *DeadLetterFinder.BINDINGS,
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = STORED_COLUMNS
    NOUN = "dropped messages"
    DEFAULT_ORDER = SortAndFilter("seq")

    def __init__(self, stream: str, consumer: str) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self.looking = DeadLetterFinder(self, stream, consumer)

    def asset(self) -> Target | None:
        """Return the consumer whose dropped messages are listed."""
        return Target(self.stream, self.consumer)

    def on_mount(self) -> None:
        """Request the dropped messages."""
        if self.state.replay is None:
            self.looking.action_ask()

    def on_screen_resume(self) -> None:
        """Request that the consumer is polled first."""
        poll_rows_first(self, (self.stream,), ((self.stream, self.consumer),))

    def view(self) -> StoredMessagesView:
        """Return a view of the dropped messages of the last result."""
        return self.looking.view

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self.looking.problem:
            return self.looking.problem
        none_stored_text = "none of its dropped messages is stored any more"
        return "searching …" if self.looking.result is None else none_stored_text

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the consumer, and the result of the search."""
        name = clean_line(f"{self.stream} › {self.consumer}")
        return f"{name}  ·  {self.looking.caption(shown, total)}"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled; None without permission, False in a replay."""
        if action == "row_actions":
            return self.is_action_offered(SEND_AGAIN.name)
        if action == "browse":
            return self.state.replay is None and self.has_row
        return super().check_action(action, parameters)

    def _seq_under_cursor(self) -> int | None:
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            self.notify("there is no row under the cursor", severity="warning", timeout=2)
            return None
        seq: int = self.looking.view.items[rows.order[position]].stream_seq or 0
        return seq

    @on(RowSelected)
    def _open(self) -> None:
        """Open the message under the cursor."""
        if (seq := self._seq_under_cursor()) is not None:
            self.app.push_screen(MessageScreen(self.stream, seq))

    def action_browse(self) -> None:
        """Open the message list of the stream at the message under the cursor."""
        if (seq := self._seq_under_cursor()) is not None:
            target = Target(self.stream, self.consumer)
            self.app.post_message(Manage(f"messages {seq}", (target,)))

    def action_row_actions(self) -> None:
        """Show the actions for the marked messages, else for the message under the cursor."""
        title = f"Actions for messages dropped by {self.consumer}"
        choose_action(self, title, [(SEND_AGAIN, self.action_send_again)])

    def action_send_again(self) -> None:
        """Send messages again: the marked ones, else the one under the cursor, or all."""
        result = self.looking.result
        if result is None or not result.sequences:
            self.notify("there is nothing to send again", severity="warning", timeout=2)
            return
        marked_seqs = sorted(int(key[0]) for key in self.table.marks if isinstance(key, tuple))
        cursor_seq = None if marked_seqs else self._seq_under_cursor()
        chosen_seqs = tuple(marked_seqs) or ((cursor_seq,) if cursor_seq is not None else ())
        label = (
            counted(len(marked_seqs), "marked message") if marked_seqs else f"message {cursor_seq}"
        )
        seqs_by_label = {label: chosen_seqs} if chosen_seqs else {}
        all_label = f"all {len(result.sequences):,}"
        seqs_by_label |= {all_label: result.sequences}
        run_task(self, send_messages_again, self, self.stream, seqs_by_label, result)
