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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar, cast

from natstui.errors import (
    Conflict,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    Refused,
    ReplyUnreadable,
    RequestTimedOut,
    ServerGone,
    SessionError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.journal import Journal, Room
from natstui.jetstream.connection.storing import gone_back_text, has_gone_back, newest_of
from natstui.jetstream.connection.times import time_us
from natstui.model.assets.fields import without_server_metadata
from natstui.model.assets.loss import NOTHING, Loss
from natstui.model.records.actions import IRREVERSIBLE, question_text
from natstui.model.records.confirmation import Confirmation, Place
from natstui.model.records.journal import done_here, is_same_place
from natstui.model.records.managing import (
    Change,
    JournalAction,
    JournalEntry,
    SilenceFinding,
)
from natstui.model.records.silences import Silence, silence_json, silences_of
from natstui.units import counted

Config = dict[str, Any]
T = TypeVar("T")
_ROOM_BYTES = 4096
"""Size reserved for an entry of the journal, beside the requested and previous configuration."""
_NOT_NOTED = "its end is not noted: it is not over yet, or natstui was killed"
READ_ONLY = "read-only: nothing is changed on this server"


class NotConfirmed(Refused):
    """A change is refused until the name in its confirmation is typed."""

    def __init__(self, sentence: str, confirmation: Confirmation) -> None:
        super().__init__(sentence)
        self.confirmation = confirmation


@dataclass(frozen=True, slots=True)
class Asset:
    """A stream or consumer in its current state on the server."""

    config: Config
    created_at_us: int
    info: Config
    """The entire INFO."""
    loss: Loss = NOTHING
    """What the change deletes of it for good."""
    stream_created_at_us: int | None = None
    """Creation time of a consumer's stream; None if the user may not read it."""
    stream_last_seq: int | None = None
    """The stream's last sequence before the loss was counted; None if the user may not read it."""
    stream_last_at_us: int | None = None
    """When that message was stored."""
    others_created_at_us: Mapping[str, int] = field(default_factory=dict)
    """Creation times of some other streams, by name."""


@dataclass(frozen=True, slots=True)
class Request:
    """A write to the JetStream API, and the state that it replaces."""

    verb: str
    body: Mapping[str, Any] | None
    asked: Mapping[str, Any]
    """The request in the journal: the configuration, or the arguments."""
    found: Asset | None = None
    """The asset before the change; None for a new one."""
    loss: Loss = NOTHING
    """What a new one takes from others for good."""


@dataclass(frozen=True, slots=True)
class JournalDraft:
    """A journal entry before its outcome is known."""

    action: JournalAction
    stream: str
    consumer: str | None
    asked: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    undoes: str | None = None
    found: Asset | None = None
    doubt: str = "the server may still have done it"
    """End of the sentence when no reply comes."""
    revision: int = 0
    """Revision of a key or object that is replaced or deleted."""


@dataclass(frozen=True, slots=True)
class PartialOutcome:
    """The outcome of a change that is cancelled before its end, and its result until then."""

    outcome: Literal["failed", "unknown"] = "unknown"
    reason: str = "natstui ended before a reply arrived"
    after: Mapping[str, Any] | None = None
    """The result until then, also of a change that fails."""


class Writer:
    """Writes to one server."""

    def __init__(
        self, client: Client, journal: Journal, *, decided_on: Confirmation | None = None
    ) -> None:
        """Create for a client; `decided_on` is the confirmation of the user: nothing else is
        changed.
        """
        self.client = client
        self.journal = journal
        self._decided_on = decided_on

    @property
    def place(self) -> Place:
        """Return the location of its changes, in terms that survive restarts."""
        link, server_id = self.client.link, self.client.nc.server_info.get("server_id")
        # A server without a name is called by its id, and gets another one with every start.
        server_name = link.server_name if link.server_name != server_id else None
        parts = [link.cluster or server_name, link.domain, _other_prefix(self.client.prefix)]
        location = " ".join(name for name in parts if name) if parts[0] else None
        return Place(self.client.connection.target, location, server_id, link.account)

    def confirmation(
        self, change: Change, target: Asset | None, new_loss: Loss = NOTHING
    ) -> Confirmation:
        """Return the effect and losses of a change, and whether its name has to be typed.

        `target` has its loss counted; None for a new asset, which has `new_loss`.
        """
        loss = target.loss if target is not None else new_loss
        production = self.client.connection.production
        question = question_text(change, "; ".join(loss.shown_lines))
        return Confirmation(
            f"{question}; this is production" if production else question,
            change.consumer or change.stream,
            _is_final(change, loss) or bool(loss.lines_until_undone) or production,
            loss.shown_lines,
            loss.most_msgs,
            target.stream_last_seq if target is not None else None,
            target.stream_last_at_us if target is not None else None,
            target.created_at_us if target is not None else None,
            place=self.place,
        )

    def check(
        self,
        name: str,
        confirmed_name: str | None,
        *,
        loses: str | None = None,
        until_undone: str = "",
        shown: Confirmation | None = None,
    ) -> None:
        """Raise Refused unless a write is allowed; `name` must be typed.

        `loses` is what is deleted for good, None if nothing; `until_undone` is what an undo
        restores. `shown` is the confirmation in NotConfirmed, if it has more than the reason.
        """
        connection = self.client.connection
        if connection.read_only:
            raise Refused(READ_ONLY)
        final = f"this cannot be undone ({loses})" if loses else "this cannot be undone"
        reasons = [final] if loses is not None else []
        reasons += [until_undone] if until_undone else []
        reasons += ["this is production"] if connection.production else []
        if reasons and confirmed_name != name:
            reason = ", and ".join(reasons)
            sentence = f"not confirmed: {reason}, type {name!r} to confirm"
            confirmation = shown or Confirmation(reason, name, needed=True, place=self.place)
            raise NotConfirmed(sentence, confirmation)
        # Another name means something else, also where no name had to be typed.
        if confirmed_name not in (None, name):
            raise Refused(f"not confirmed: {confirmed_name!r} is not {name!r}")

    def check_target(self, name: str, created_at_us: int | None, revision_seq: int = 0) -> None:
        """Raise Conflict unless this is the asset that the user confirmed, on the same server."""
        shown = self._decided_on
        if shown is None:
            return
        self.check_place(shown.place)
        has_times = shown.created_at_us is not None and created_at_us is not None
        confirmed_state = (shown.created_at_us, shown.revision_seq)
        if has_times and confirmed_state != (created_at_us, revision_seq):
            raise Conflict(f"{name} was changed before you confirmed: nothing was done")

    def check_place(self, decided_at: Place | None) -> None:
        """Raise Conflict on another server, or in another account, than the confirmed one."""
        if decided_at is not None and not is_same_place(decided_at, self.place):
            raise Conflict(
                "this is not the server and account that you confirmed for: nothing was done"
            )

    def silence(self, command: SilenceFinding) -> None:
        """Journal that a finding is silenced, or not any more; nothing is sent.

        Allowed in read-only mode: the server is not changed. Raises SessionError.
        """
        now_us = time.time_ns() // 1000
        action: JournalAction = "lift_silence" if command.for_s is None else "silence"
        draft = JournalDraft(
            action, command.stream, command.consumer or None, silence_json(command, now_us)
        )
        room = self.journal.reserve(_ROOM_BYTES)
        self._note(room, draft, None, "done", None, command.created_at_us or None)

    @property
    def silences(self) -> tuple[Silence, ...]:
        """Return the current silences on this server; raises SessionError."""
        return self.silences_in(self.journal.entries())

    def silences_in(self, entries: Sequence[JournalEntry]) -> tuple[Silence, ...]:
        """Return the current silences on this server, from entries of the journal."""
        return silences_of(done_here(entries, self.place), time.time_ns() // 1000)

    async def write(
        self,
        change: Change,
        request: Request,
        undoes: str | None = None,
        read_back: Callable[[Config], Awaitable[Config]] | None = None,
    ) -> Config:
        """Send one request, journal it in any case, and return the reply.

        `read_back` is called with the reply and returns what is journalled instead: some servers
        reply with the previous configuration. It raises nothing.
        Raises Refused before anything is sent, SessionError when it cannot be journalled,
        OutcomeUnknown when it was sent and no reply shows whether it was done, and what
        `Client.request` raises.
        """
        target = request.found
        loss = target.loss if target is not None else request.loss
        self.check_place(change.place)
        confirmation = self.confirmation(change, target, request.loss)
        loses = loss.text if _is_final(change, loss) else None
        self.check(
            confirmation.name,
            change.confirmed,
            loses=loses,
            until_undone="; ".join(loss.lines_until_undone),
            shown=confirmation,
        )

        async def ask() -> Config:
            reply: Config = json.loads(await self.client.request(request.verb, request.body))
            return reply if read_back is None else await read_back(reply)

        draft = JournalDraft(
            change.action,
            change.stream,
            change.consumer,
            request.asked,
            target.config if target is not None and change.action != "delete_message" else None,
            undoes,
            target,
        )
        return await self._journalled(draft, ask, _config_of)

    async def send(
        self,
        draft: JournalDraft,
        confirmed: tuple[str, str | None],
        work: Callable[[], Awaitable[T]],
        became: Callable[[T], Mapping[str, Any]],
        loses: str | None = None,
        so_far: Callable[[], PartialOutcome] = PartialOutcome,
    ) -> T:
        """Send or consume a message, and journal it without its payload.

        `confirmed` is the required name and the typed one; `became` returns the journal's result
        of the reply, `loses` is what is deleted for good, and `so_far` returns what is known
        without a reply. Raises what `write` raises, and Conflict when this is not the confirmed
        asset.
        """
        created_at_us = draft.found.created_at_us if draft.found is not None else None
        self.check_target(confirmed[0], created_at_us, draft.revision)
        state = draft.found.info.get("state") if draft.found is not None else None
        shown = self._decided_on
        newest = (shown.last_seq or 0, shown.last_at_us or 0) if shown else (0, 0)
        if state and await has_gone_back(self.client, draft.stream, state, *newest):
            raise Conflict(f"{gone_back_text(draft.stream)}: nothing was changed")
        try:
            self.check(*confirmed, loses=loses)
        except NotConfirmed as error:
            last_seq, last_at_us = newest_of(state) if state else (None, None)
            shown_confirmation = replace(
                error.confirmation,
                last_seq=last_seq,
                last_at_us=last_at_us,
                created_at_us=created_at_us,
                revision_seq=draft.revision,
            )
            raise NotConfirmed(str(error), shown_confirmation) from None
        return await self._journalled(draft, work, became, so_far)

    def note_begin(self, draft: JournalDraft) -> Room:
        """Journal the start of a long operation, and return the room of its end.

        Raises SessionError, also without space for the end.
        """
        size_bytes = 2 * len(json.dumps(draft.asked)) + _ROOM_BYTES
        room = self.journal.reserve(size_bytes)
        try:
            end_room = self.journal.reserve(size_bytes)
        except SessionError:
            # Nothing has begun: an entry would say that it has.
            self.journal.release(room)
            raise
        begins = replace(draft, asked={**draft.asked, "phase": "begin"})
        self._note(room, begins, None, "done", None)
        return end_room

    def note_end(
        self,
        room: Room,
        draft: JournalDraft,
        after: Mapping[str, Any] | None,
        reason: str | None = None,
    ) -> None:
        """Journal the end of an operation: `reason` is why it failed. Raises SessionError."""
        ends = replace(draft, asked={**draft.asked, "phase": "end"})
        self._note(room, ends, after, "failed" if reason else "done", reason)

    async def _journalled(
        self,
        draft: JournalDraft,
        work: Callable[[], Awaitable[T]],
        became: Callable[[T], Mapping[str, Any] | None],
        so_far: Callable[[], PartialOutcome] = PartialOutcome,
    ) -> T:
        # A full disk refuses the change, and not its entry after it.
        others_created_at_us = (
            dict(draft.found.others_created_at_us) if draft.found is not None else {}
        )
        kept_text = json.dumps([draft.asked, draft.before, others_created_at_us])
        begun_entry = self._entry(draft, None, "unknown", _NOT_NOTED)
        room = self.journal.reserve(2 * len(kept_text) + _ROOM_BYTES, begun_entry)
        note = partial(self._note, room, draft)
        try:
            result = await work()
        except (RequestTimedOut, ServerGone, ReplyUnreadable, OutcomeUnknown) as error:
            if isinstance(error, ServerGone) and not error.sent:
                note(so_far().after, "failed", str(error))
                raise
            note(so_far().after, "unknown", str(error))
            raise OutcomeUnknown(f"{error}: {draft.doubt}") from error
        except asyncio.CancelledError:
            partial_outcome = so_far()
            note(partial_outcome.after, partial_outcome.outcome, partial_outcome.reason)
            raise
        except NatstuiError as error:
            if draft.action == "pull" and isinstance(error, NotFound):
                # It has changed nothing.
                self.journal.release(room)
            else:
                note(so_far().after, "failed", str(error))
            raise
        created_text = (
            result.get("created") if draft.found is None and isinstance(result, dict) else None
        )
        is_creation = draft.action.startswith("create") and isinstance(result, dict)
        used = used_text(cast("Config", result)) if is_creation else None
        made_at_us = time_us(created_text) if created_text else None
        note(became(result), "done", used, made_at_us)
        return result

    def _note(
        self,
        room: Room,
        draft: JournalDraft,
        after: Mapping[str, Any] | None,
        outcome: Literal["done", "failed", "unknown"],
        reason: str | None,
        made_at_us: int | None = None,
    ) -> None:
        entry = self._entry(draft, after, outcome, reason, made_at_us)
        try:
            self.journal.add(entry, room)
        except SessionError as error:
            became = "the change was made" if outcome == "done" else reason
            raise SessionError(f"{became}, but {error}") from error

    def _entry(
        self,
        draft: JournalDraft,
        after: Mapping[str, Any] | None,
        outcome: Literal["done", "failed", "unknown"],
        reason: str | None,
        made_at_us: int | None = None,
    ) -> JournalEntry:
        link, place, found = self.client.link, self.place, draft.found
        return JournalEntry(
            entry=uuid.uuid4().hex[:8],
            at_us=time.time_ns() // 1000,
            server=place.target,
            who=f"{_who(link.user, link.account)} ({_login_name()})",
            action=draft.action,
            stream=draft.stream or str((after or {}).get("stream", "")),
            consumer=draft.consumer,
            request_json=_kept(draft.asked) or "{}",
            before_json=_kept(draft.before),
            after_json=_kept(after),
            outcome=outcome,
            reason=reason,
            undoes=draft.undoes,
            created_at_us=found.created_at_us if found is not None else made_at_us,
            stream_created_at_us=found.stream_created_at_us if found is not None else None,
            place=place.place,
            server_id=place.server_id,
            account=place.account,
            loses=(found.loss.text or None) if found is not None else None,
            others_created_at_us=dict(found.others_created_at_us) if found is not None else {},
        )


def used_text(reply: Config) -> str | None:
    """Return what a reply shows of others in a new stream or consumer; None if nothing.

    Somebody else may have created it just before: a server replies the same to both.
    """
    config, state, delivered = (reply.get(key) or {} for key in ("config", "state", "delivered"))
    copies = bool(config.get("mirror") or config.get("sources"))
    counts = {
        "message": 0 if copies else state.get("messages", 0),
        "consumer": state.get("consumer_count", 0),
        "delivery": 0 if config.get("deliver_subject") else delivered.get("consumer_seq", 0),
        "open pull request": reply.get("num_waiting", 0),
    }
    used = [counted(count, kind) for kind, count in counts.items() if count]
    if not used:
        return None
    return f"it has {' and '.join(used)} already, and may be of somebody else"


async def with_state_now(work: Awaitable[T], shown: Callable[[], Awaitable[str]]) -> T:
    """Return what a write returns; where no reply says whether it was done, read what there is.

    Raises what the write raises; OutcomeUnknown ends with what `shown` returns then.
    """
    try:
        return await work
    except OutcomeUnknown as error:
        try:
            now = f"read again, {await shown()}"
        except NatstuiError as unread:
            now = f"and it cannot be read again now ({unread})"
        raise OutcomeUnknown(f"{error}; {now}") from error


def _is_final(change: Change, loss: Loss) -> bool:
    return change.action in IRREVERSIBLE or bool(loss.lines)


def _other_prefix(prefix: str) -> str:
    """Return the prefix of another account's API, empty for our own."""
    return "" if prefix.startswith("$JS.") else prefix


def _config_of(reply: Config) -> Config | None:
    """Return the configuration in a reply; None if it has none, or another shape."""
    config = reply.get("config")
    return config if isinstance(config, dict) else None


def _kept(config: Mapping[str, Any] | None) -> str | None:
    return None if config is None else json.dumps(without_server_metadata(config))


def _login_name() -> str:
    """Return the name of the user who runs natstui, or the number of one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # Containers run under numbers that no list of users has; Python 3.13 raises OSError.
        return str(os.getuid())


def _who(user: str | None, account: str | None) -> str:
    """Return user@account; a single name if both are equal."""
    if user is not None and user == account:
        return user
    return f"{user or '-'}@{account or '-'}"
