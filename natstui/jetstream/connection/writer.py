"""The only way to change a server: refused when read-only, confirmed by name, journalled.

Everything that writes, acknowledges or consumes uses a `Writer`.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct, field

from natstui.errors import (
    ActionRefusal,
    Conflict,
    ConnectionLost,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    ReplyUnreadable,
    RequestTimedOut,
    SessionError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.asset import created_at_us_in
from natstui.jetstream.connection.decode.consumers import ConsumerRow, read_consumer
from natstui.jetstream.connection.decode.streams import StreamRow, read_stream
from natstui.jetstream.connection.journal import Journal, ReservedLine
from natstui.jetstream.connection.storing import has_lost_newest, lost_newest_text, newest_message
from natstui.model.assets.fields import without_server_metadata
from natstui.model.assets.loss import NO_LOSS, Loss
from natstui.model.records.actions import IRREVERSIBLE_ACTIONS, confirmation_text
from natstui.model.records.confirmation import Confirmation, ServerIdentity
from natstui.model.records.journal import is_same_jetstream, select_entries
from natstui.model.records.managing import (
    Change,
    JournalAction,
    JournalEntry,
    SilenceFinding,
)
from natstui.model.records.silences import Silence, silence_json, silences_of
from natstui.units import counted
from natstui.values import replace

Config = dict[str, Any]
T = TypeVar("T")
_RESERVED_LINE_BYTES = 4096
"""Space reserved for an entry of the journal, beyond the requested and previous configuration."""
_NOT_FINISHED = "its end is not noted: it is not over yet, or natstui was killed"
READ_ONLY = "read-only: nothing is changed on this server"


class MissingConfirmation(ActionRefusal):
    """A change is refused because the name in `confirmation` was not typed."""

    def __init__(self, sentence: str, confirmation: Confirmation) -> None:
        super().__init__(sentence)
        self.confirmation = confirmation


class Asset(Struct, frozen=True):
    """A stream or consumer in its current state on the server."""

    config: Config
    created_at_us: int
    info: StreamRow | ConsumerRow | None = None
    """The reply to INFO; None if it is not needed."""
    loss: Loss = NO_LOSS
    """Data of the stream or consumer that the change deletes for good."""
    stream_created_at_us: int | None = None
    """Creation time of a consumer's stream; None without permission."""
    stream_last_seq: int | None = None
    """The stream's last sequence before the loss was counted; None without permission."""
    stream_last_at_us: int | None = None
    """When the message with that sequence was stored."""
    others_created_at_us: Mapping[str, int] = field(default_factory=dict)
    """Creation times of some other streams, by name."""

    @property
    def stream_info(self) -> StreamRow:
        """Return the reply to STREAM.INFO; raises AssertionError for a consumer."""
        assert isinstance(self.info, StreamRow)
        return self.info

    @property
    def consumer_info(self) -> ConsumerRow:
        """Return the reply to CONSUMER.INFO; raises AssertionError for a stream."""
        assert isinstance(self.info, ConsumerRow)
        return self.info


class WriteRequest(Struct, frozen=True):
    """A write request to the JetStream API, and the state that it replaces."""

    verb: str
    body: Mapping[str, Any] | None
    arguments: Mapping[str, Any]
    """The configuration or other arguments, as they are written to the journal."""
    target: Asset | None = None
    """The stream or consumer before the change; None for a new one."""
    loss: Loss = NO_LOSS
    """Messages of others that a new stream or consumer removes for good."""


class JournalDraft(Struct, frozen=True):
    """A journal entry before its outcome is known."""

    action: JournalAction
    stream: str
    consumer: str | None
    arguments: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    undoes: str | None = None
    target: Asset | None = None
    doubt: str = "the server may still have done it"
    """End of the error's sentence if no reply comes."""
    revision: int = 0
    """Revision of a key or object that is replaced or deleted."""


class PartialOutcome(Struct, frozen=True):
    """The outcome of a change that is cancelled or fails before its end, and its result so far."""

    outcome: Literal["failed", "unknown"] = "unknown"
    reason: str = "natstui ended before a reply arrived"
    after: Mapping[str, Any] | None = None
    """The result so far."""


class Writer:
    """Changes one server: checks, sends and journals each write."""

    def __init__(
        self, client: Client, journal: Journal, *, decided_on: Confirmation | None = None
    ) -> None:
        """Create a writer; it refuses a target that is not the one confirmed by `decided_on`."""
        self.client = client
        self.journal = journal
        self._user_confirmation = decided_on

    @property
    def server_identity(self) -> ServerIdentity:
        """Return the server or cluster, domain and account that are changed."""
        link, server_id = self.client.link, self.client.nc.server_info.get("server_id")
        # A server without a name has its id as a name, which changes with every start.
        server_name = link.server_name if link.server_name != server_id else None
        location_parts = [
            link.cluster or server_name,
            link.domain,
            _foreign_prefix(self.client.prefix),
        ]
        location = " ".join(name for name in location_parts if name) if location_parts[0] else None
        return ServerIdentity(self.client.connection.target, location, server_id, link.account)

    def make_confirmation(
        self, change: Change, target: Asset | None, new_loss: Loss = NO_LOSS
    ) -> Confirmation:
        """Return the confirmation of a change: its effect, losses, and whether to type its name.

        `target` is the stream or consumer with its counted loss; None for a new one, which has
        `new_loss`.
        """
        loss = target.loss if target is not None else new_loss
        is_production = self.client.connection.production
        prompt = confirmation_text(change, "; ".join(loss.shown_lines))
        return Confirmation(
            self.prompt_text(prompt),
            change.consumer or change.stream,
            _is_undo_impossible(change, loss)
            or bool(loss.lines_restored_by_undo)
            or is_production,
            loss.shown_lines,
            loss.most_msgs,
            target.stream_last_seq if target is not None else None,
            target.stream_last_at_us if target is not None else None,
            target.created_at_us if target is not None else None,
            place=self.server_identity,
        )

    def prompt_text(self, prompt: str) -> str:
        """Return the prompt; in production it says so."""
        return f"{prompt}; this is production" if self.client.connection.production else prompt

    def check_allowed(
        self,
        name: str,
        confirmed_name: str | None,
        *,
        loss_text: str | None = None,
        lost_until_undone: str = "",
        shown_confirmation: Confirmation | None = None,
    ) -> None:
        """Raise ActionRefusal if the connection is read-only, or `name` must be typed and was not.

        `loss_text` is what is deleted for good, None if nothing; `lost_until_undone` is what is
        lost until an undo restores it. MissingConfirmation contains `shown_confirmation`, or else
        a confirmation with only the reason.
        """
        connection = self.client.connection
        if connection.read_only:
            raise ActionRefusal(READ_ONLY)
        not_undoable_text = (
            f"this cannot be undone ({loss_text})" if loss_text else "this cannot be undone"
        )
        confirmation_reasons = [not_undoable_text] if loss_text is not None else []
        confirmation_reasons += [lost_until_undone] if lost_until_undone else []
        confirmation_reasons += ["this is production"] if connection.production else []
        if confirmation_reasons and confirmed_name != name:
            reason = ", and ".join(confirmation_reasons)
            sentence = f"not confirmed: {reason}, type {name!r} to confirm"
            confirmation = shown_confirmation or Confirmation(
                reason,
                name,
                needed=True,
                lines=(loss_text,) if loss_text is not None else (),
                place=self.server_identity,
            )
            raise MissingConfirmation(sentence, confirmation)
        # Another name means another target, also if no name had to be typed.
        if confirmed_name not in (None, name):
            raise ActionRefusal(f"not confirmed: {confirmed_name!r} is not {name!r}")

    def check_target(self, name: str, created_at_us: int | None, revision_seq: int = 0) -> None:
        """Raise Conflict if the user confirmed another target than this one, or another server.

        `name` is the target's name in the error, `created_at_us` its creation time (UTC), and
        `revision_seq` the revision of a changed key or object.
        """
        confirmation = self._user_confirmation
        if confirmation is None:
            return
        self.check_server(confirmation.place)
        are_both_times_known = confirmation.created_at_us is not None and created_at_us is not None
        confirmed_state = (confirmation.created_at_us, confirmation.revision_seq)
        if are_both_times_known and confirmed_state != (created_at_us, revision_seq):
            raise Conflict(f"{name} was changed before you confirmed: nothing was done")

    def check_loss(self, name: str, loss_text: str | None) -> None:
        """Raise Conflict if the text of a loss is not the one that the user confirmed."""
        confirmation = self._user_confirmation
        if (
            confirmation is not None
            and loss_text is not None
            and confirmation.lines != (loss_text,)
        ):
            raise Conflict(
                f"{name} was changed before you confirmed: nothing was done; now {loss_text}"
            )

    def check_server(self, confirmed_server: ServerIdentity | None) -> None:
        """Raise Conflict if the server or account is another one than the confirmed one."""
        if confirmed_server is not None and not is_same_jetstream(
            confirmed_server, self.server_identity
        ):
            raise Conflict(
                "this is not the server and account that you confirmed for: nothing was done"
            )

    def silence(self, command: SilenceFinding) -> None:
        """Journal that a finding is silenced, or that its silence is lifted; nothing is sent.

        Allowed in read-only mode too: the server is not changed. Raises SessionError if it cannot
        be journalled.
        """
        now_us = time.time_ns() // 1000
        action: JournalAction = "lift_silence" if command.for_s is None else "silence"
        draft = JournalDraft(
            action, command.stream, command.consumer or None, silence_json(command, now_us)
        )
        reserved_line = self.journal.reserve(_RESERVED_LINE_BYTES)
        self._add_entry(reserved_line, draft, None, "done", None, command.created_at_us or None)

    @property
    def silences(self) -> tuple[Silence, ...]:
        """Return which findings of this server are silenced now.

        Raises SessionError if the journal cannot be read.
        """
        return self.find_silences(self.journal.entries())

    def find_silences(self, entries: Sequence[JournalEntry]) -> tuple[Silence, ...]:
        """Return which findings of this server are silenced now, according to journal entries."""
        return silences_of(select_entries(entries, self.server_identity), time.time_ns() // 1000)

    async def write(
        self,
        change: Change,
        request: WriteRequest,
        undoes: str | None = None,
        read_back: Callable[[Config], Awaitable[Config]] | None = None,
    ) -> Config:
        """Send one request, journal it in any case, and return the reply.

        `undoes` is the journal's entry that the change undoes, if any.
        `read_back` is called with the reply and returns what is journalled and returned instead:
        some servers reply with the previous configuration. It must not raise.

        Raises ActionRefusal before anything is sent, SessionError when it cannot be journalled,
        OutcomeUnknown when it was sent and no reply shows whether it was done, and what
        `Client.request` raises.
        """
        target = request.target
        loss = target.loss if target is not None else request.loss
        self.check_server(change.place)
        confirmation = self.make_confirmation(change, target, request.loss)
        loss_text = loss.text if _is_undo_impossible(change, loss) else None
        self.check_allowed(
            confirmation.name,
            change.confirmed,
            loss_text=loss_text,
            lost_until_undone="; ".join(loss.lines_restored_by_undo),
            shown_confirmation=confirmation,
        )

        async def send() -> Config:
            reply: Config = json.loads(await self.client.request(request.verb, request.body))
            return reply if read_back is None else await read_back(reply)

        draft = JournalDraft(
            change.action,
            change.stream,
            change.consumer,
            request.arguments,
            target.config if target is not None and change.action != "delete_message" else None,
            undoes,
            target,
        )
        return await self._run_and_journal(draft, send, _read_config)

    async def send(
        self,
        draft: JournalDraft,
        required_and_typed_name: tuple[str, str | None],
        work: Callable[[], Awaitable[T]],
        make_result: Callable[[T], Mapping[str, Any]],
        loss_text: str | None = None,
        get_partial_outcome: Callable[[], PartialOutcome] = PartialOutcome,
        prompt: str | None = None,
    ) -> T:
        """Do `work`, which sends or consumes messages, and journal it without payloads.

        `make_result` returns what the journal keeps of the result of `work`, `loss_text` is what
        is deleted for good, and `get_partial_outcome` returns what is known if `work` does not
        end. `prompt` is the question of the confirmation; None: only its reason. Raises what
        `write` raises, and Conflict if this is not the confirmed target.
        """
        created_at_us = draft.target.created_at_us if draft.target is not None else None
        self.check_target(required_and_typed_name[0], created_at_us, draft.revision)
        info = draft.target.info if draft.target is not None else None
        state = info.state if isinstance(info, StreamRow) else None
        confirmation = self._user_confirmation
        confirmed_seq_and_us = (
            (confirmation.last_seq or 0, confirmation.last_at_us or 0) if confirmation else (0, 0)
        )
        if state and await has_lost_newest(
            self.client, draft.stream, state, *confirmed_seq_and_us
        ):
            raise Conflict(f"{lost_newest_text(draft.stream)}: nothing was changed")
        try:
            self.check_allowed(*required_and_typed_name, loss_text=loss_text)
        except MissingConfirmation as error:
            last_seq, last_at_us = newest_message(state) if state else (None, None)
            new_confirmation = replace(
                error.confirmation,
                last_seq=last_seq,
                last_at_us=last_at_us,
                created_at_us=created_at_us,
                revision_seq=draft.revision,
            )
            if prompt is not None:
                new_confirmation = replace(new_confirmation, question=self.prompt_text(prompt))
            raise MissingConfirmation(str(error), new_confirmation) from None
        return await self._run_and_journal(draft, work, make_result, get_partial_outcome)

    def journal_begin(self, draft: JournalDraft) -> ReservedLine:
        """Journal the start of a long operation; return the reserved line for its end.

        Raises SessionError, also without disk space for the end.
        """
        size_bytes = 2 * len(json.dumps(draft.arguments)) + _RESERVED_LINE_BYTES
        reserved_line = self.journal.reserve(size_bytes)
        try:
            reserved_end_line = self.journal.reserve(size_bytes)
        except SessionError:
            # Nothing has begun: there must be no entry of its start.
            self.journal.release(reserved_line)
            raise
        begin_draft = replace(draft, arguments={**draft.arguments, "phase": "begin"})
        self._add_entry(reserved_line, begin_draft, None, "done", None)
        return reserved_end_line

    def journal_end(
        self,
        reserved_line: ReservedLine,
        draft: JournalDraft,
        after: Mapping[str, Any] | None,
        reason: str | None = None,
    ) -> None:
        """Journal the end of a long operation, with its result `after`.

        `reason` is why it failed, or None.
        Raises SessionError if the journal cannot be written.
        """
        end_draft = replace(draft, arguments={**draft.arguments, "phase": "end"})
        self._add_entry(reserved_line, end_draft, after, "failed" if reason else "done", reason)

    async def _run_and_journal(
        self,
        draft: JournalDraft,
        work: Callable[[], Awaitable[T]],
        make_result: Callable[[T], Mapping[str, Any] | None],
        get_partial_outcome: Callable[[], PartialOutcome] = PartialOutcome,
    ) -> T:
        # A full disk must refuse the change before it is done, not only its entry afterwards.
        others_created_at_us = (
            dict(draft.target.others_created_at_us) if draft.target is not None else {}
        )
        reserved_json = json.dumps([draft.arguments, draft.before, others_created_at_us])
        unfinished_entry = self._make_entry(draft, None, "unknown", _NOT_FINISHED)
        reserved_line = self.journal.reserve(
            2 * len(reserved_json) + _RESERVED_LINE_BYTES, unfinished_entry
        )
        add_entry = partial(self._add_entry, reserved_line, draft)
        try:
            result = await work()
        except (RequestTimedOut, ConnectionLost, ReplyUnreadable, OutcomeUnknown) as error:
            if isinstance(error, ConnectionLost) and not error.sent:
                add_entry(get_partial_outcome().after, "failed", str(error))
                raise
            add_entry(get_partial_outcome().after, "unknown", str(error))
            raise OutcomeUnknown(f"{error}: {draft.doubt}") from error
        except asyncio.CancelledError:
            partial_outcome = get_partial_outcome()
            add_entry(partial_outcome.after, partial_outcome.outcome, partial_outcome.reason)
            raise
        except NatstuiError as error:
            if draft.action == "pull" and isinstance(error, NotFound):
                # It has changed nothing.
                self.journal.release(reserved_line)
            else:
                add_entry(get_partial_outcome().after, "failed", str(error))
            raise
        use_text, created_at_us = None, None
        if draft.target is None and isinstance(result, dict):
            created_at_us = created_at_us_in(result)
        if draft.action in ("create_stream", "create_consumer"):
            use_text = describe_use_by_others(draft.action, cast("Config", result))
        add_entry(make_result(result), "done", use_text, created_at_us)
        return result

    def _add_entry(
        self,
        reserved_line: ReservedLine,
        draft: JournalDraft,
        after: Mapping[str, Any] | None,
        outcome: Literal["done", "failed", "unknown"],
        reason: str | None,
        created_at_us: int | None = None,
    ) -> None:
        entry = self._make_entry(draft, after, outcome, reason, created_at_us)
        try:
            self.journal.add(entry, reserved_line)
        except SessionError as error:
            outcome_text = "the change was made" if outcome == "done" else reason
            raise SessionError(f"{outcome_text}, but {error}") from error

    def _make_entry(
        self,
        draft: JournalDraft,
        after: Mapping[str, Any] | None,
        outcome: Literal["done", "failed", "unknown"],
        reason: str | None,
        created_at_us: int | None = None,
    ) -> JournalEntry:
        link, identity, target = self.client.link, self.server_identity, draft.target
        return JournalEntry(
            entry=uuid.uuid4().hex[:8],
            at_us=time.time_ns() // 1000,
            server=identity.target,
            who=f"{_format_user(link.user, link.account)} ({_login_name()})",
            action=draft.action,
            stream=draft.stream or str((after or {}).get("stream", "")),
            consumer=draft.consumer,
            request_json=_encode_config(draft.arguments) or "{}",
            before_json=_encode_config(draft.before),
            after_json=_encode_config(after),
            outcome=outcome,
            reason=reason,
            undoes=draft.undoes,
            created_at_us=target.created_at_us if target is not None else created_at_us,
            stream_created_at_us=target.stream_created_at_us if target is not None else None,
            place=identity.place,
            server_id=identity.server_id,
            account=identity.account,
            loses=(target.loss.text or None) if target is not None else None,
            others_created_at_us=dict(target.others_created_at_us) if target is not None else {},
        )


def describe_use_by_others(action: JournalAction, reply: Config) -> str | None:
    """Return a text of the messages and users that a new stream or consumer already has, or None.

    If it has any, another client may have created it just before: the server sends both clients
    the same reply. If the reply cannot be read, the text says so: the stream or consumer exists.
    """
    try:
        use_texts = _describe_use(action, reply)
    except ReplyUnreadable as error:
        return f"what it has already is unknown: {error}"
    if not use_texts:
        return None
    return f"it has {' and '.join(use_texts)} already, and may be of somebody else"


def _describe_use(action: JournalAction, reply: Config) -> list[str]:
    """Return texts of the messages and users of a stream or consumer; raises ReplyUnreadable."""
    data, config = json.dumps(reply).encode(), reply.get("config") or {}
    if action == "create_consumer":
        consumer = read_consumer(data)
        deliveries_count = 0 if config.get("deliver_subject") else consumer.delivered.consumer_seq
        counts_by_kind = {"delivery": deliveries_count, "open pull request": consumer.num_waiting}
    else:
        state = read_stream(data).state
        has_upstreams = config.get("mirror") or config.get("sources")
        stored_msgs = 0 if has_upstreams else state.messages
        counts_by_kind = {"message": stored_msgs, "consumer": state.consumer_count}
    return [counted(count, kind) for kind, count in counts_by_kind.items() if count]


async def add_state_if_unknown(work: Awaitable[T], read_state: Callable[[], Awaitable[str]]) -> T:
    """Return what a write returns; if its outcome is unknown, add the current state to the error.

    Raises what the write raises; an OutcomeUnknown ends with the text that `read_state` returns.
    """
    try:
        return await work
    except OutcomeUnknown as error:
        try:
            state_text = f"read again, {await read_state()}"
        except NatstuiError as unread:
            state_text = f"and it cannot be read again now ({unread})"
        raise OutcomeUnknown(f"{error}; {state_text}") from error


def _is_undo_impossible(change: Change, loss: Loss) -> bool:
    return change.action in IRREVERSIBLE_ACTIONS or bool(loss.lines)


def _foreign_prefix(prefix: str) -> str:
    """Return an API prefix if it is of another account's API, else an empty text."""
    return "" if prefix.startswith("$JS.") else prefix


def _read_config(reply: Config) -> Config | None:
    """Return the configuration in a reply; None if the reply has none."""
    config = reply.get("config")
    return config if isinstance(config, dict) else None


def _encode_config(config: Mapping[str, Any] | None) -> str | None:
    return None if config is None else json.dumps(without_server_metadata(config))


def _login_name() -> str:
    """Return the login name of the user who runs natstui, or the user id without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # Containers run under numbers that no list of users has; Python 3.13 raises OSError.
        return str(os.getuid())


def _format_user(user: str | None, account: str | None) -> str:
    """Return the text user@account; one name if both are equal."""
    if user is not None and user == account:
        return user
    return f"{user or '-'}@{account or '-'}"
