"""Restores a stream from a backup: never over an existing one, and compared afterwards.

The server shows a stream while it is still being restored, and keeps the part of an interrupted
restore. Until it was compared, it therefore has `MARK` in its metadata.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from natstui.errors import (
    BackupError,
    Conflict,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
    UsageError,
)
from natstui.files import open_plain
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.times import NEVER, server_us, time_us
from natstui.jetstream.connection.writer import Config, JournalDraft, PartialOutcome, Writer
from natstui.jetstream.managing.backup_folder import (
    DATA_FILE,
    MARK,
    Backup,
    is_account,
    read_backup,
    removed_text,
    streams_of,
    unfinished_restore,
)
from natstui.jetstream.managing.configure import recreated_text
from natstui.jetstream.managing.losses import connections_loss, moved_text, upstreams
from natstui.jetstream.managing.snapshot import Pace, Progress, give, to_its_end
from natstui.model.assets.fields import number_at, without_server_metadata
from natstui.model.assets.loss import has_ttl
from natstui.model.assets.subjects import overlap
from natstui.units import bytes_text, counted, duration_text, moment_text

_CONSUMERS_S = 20.0
_TTL_SAMPLE_MSGS = 10_000
_TTLS_AT_ONCE = 100
_SETTLED_S = 2.0
_LOOK_AGAIN_S = 0.2
RECONNECTED_S = 30.0
"""How long to wait for a connection that was lost, and for a stream that elects a leader."""
_EXPIRED_S = 20.0
"""How long to wait for the server to remove messages over max age."""
_TAKEN = {10058, 10065, 10130}
"""Error codes: the name, or one of the subjects, is in use."""
_OTHER_NAME = "stream names do not match"
"""Error text of servers before 2.15 for another name."""
_BUCKETS = {"KV_": "key-value bucket", "OBJ_": "object store"}
_REMOVED = "the part restored until then was removed"
T = TypeVar("T")
OnRestored = Callable[[str, int, int], None]
"""Called with the stream, the bytes sent so far and those of its backup."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A stream to restore, with its changes."""

    backup: Backup
    name: str
    replicas: int | None = None
    subjects: tuple[str, ...] = ()
    """New subjects of the stream; messages keep theirs."""
    confirmed: str | None = None

    @property
    def config(self) -> Config:
        """Return the configuration to restore; raises UsageError for an invalid one."""
        config = {**without_server_metadata(self.backup.config), "name": self.name}
        kind = self._bucket
        if kind and (self.name != self.backup.stream or self.subjects):
            raise UsageError(
                f"{self.backup.stream} is a {kind}: its name is in the subject of every "
                "message, so it cannot be restored under another name"
            )
        if self.replicas is not None:
            config["num_replicas"] = self.replicas
        if self.subjects:
            config["subjects"] = list(self.subjects)
        return config

    def beside(self, config: Config) -> str:
        """Return the command that restores it beside a stream of its name; empty for a bucket.

        `config` is the configuration of that stream. No two streams have the same subject.
        """
        if self._bucket:
            return ""
        folder = shlex.quote(str(self.backup.folder))
        subjects, their_subjects = self.config.get("subjects") or (), config.get("subjects") or ()
        flag, text = "", "under another name"
        if any(overlap(subject, other) for subject in subjects for other in their_subjects):
            flag, text = " --subjects SUBJECT", "under another name, with other subjects"
        return f"natstui stream restore {folder} --as NAME{flag} restores it {text}"

    @property
    def _bucket(self) -> str | None:
        starts = _BUCKETS.items()
        return next((word for start, word in starts if self.backup.stream.startswith(start)), None)


@dataclass(frozen=True, slots=True)
class RestoredStream:
    """A restored stream, compared with its backup."""

    name: str
    state: Config
    consumers_count: int
    remarks: tuple[str, ...] = ()
    """Acceptable differences from the backup."""
    is_same: bool = True
    """Whether its messages are those of the backup."""


def restored_text(stream: RestoredStream) -> str:
    """Return the content of a restored stream, without its remarks."""
    comparison = "the same as in its backup" if stream.is_same else "not the same as in its backup"
    return f"{stream.name} restored, {comparison}: {state_text(stream.state)}"


async def refuse_present(client: Client, restore_request: RestoreRequest) -> None:
    """Raise Conflict when a stream of that name exists."""
    name = restore_request.name
    config = await _present_config(client, name)
    if config is None:
        return
    if unfinished_text := unfinished_restore(config):
        raise Conflict(f"stream {name} was {unfinished_text}; natstui stream rm {name} removes it")
    refused = f"stream {name} exists already and is not overwritten"
    raise Conflict(": ".join(filter(None, (refused, restore_request.beside(config)))))


async def _present_config(client: Client, name: str) -> Config | None:
    """Return the configuration of the stream of that name; None when there is none."""
    try:
        config: Config = json.loads(await client.request(f"STREAM.INFO.{name}"))["config"]
    except NotFound:
        return None
    return config


def _mark_of(config: Config) -> str | None:
    """Return when the restore began that has not ended; None for a stream as every other."""
    mark: str | None = (config.get("metadata") or {}).get(MARK)
    return mark


_LIFTED = ("max_consumers", "max_msg_size")
"""Limits that a stream may be above, if they were lowered later; a restore may not."""


def _marked(config: Config) -> Config:
    """Return the configuration with the mark, and without the limits that a restore may be above.

    What is sealed could not be changed again.
    """
    if config.get("sealed"):
        return config
    since = moment_text(time.time_ns() // 1000) + "Z"
    metadata = {**(config.get("metadata") or {}), MARK: since}
    return {**config, **dict.fromkeys(_LIFTED, -1), "metadata": metadata}


async def restore_stream(
    writer: Writer,
    restore_request: RestoreRequest,
    pace: Pace,
    progress: Progress,
    restored_streams: list[RestoredStream],
) -> None:
    """Create a stream from a backup, compare both, and add it to `restored_streams`.

    Raises Conflict when there is one of that name, RequestFailed when the data is not complete:
    then nothing stays on the server; and when it differs: then it stays, marked. A cancelled
    restore leaves nothing, or all of it when all of it was there. Raises OutcomeUnknown with the
    state on the server when no reply shows whether it was restored.
    """
    name, backup = restore_request.name, restore_request.backup
    marked_config = _marked(restore_request.config)
    await refuse_present(writer.client, restore_request)
    journalled = {
        "folder": str(backup.folder),
        "stream": backup.stream,
        "messages": backup.state.get("messages"),
        **({"replicas": restore_request.replicas} if restore_request.replicas is not None else {}),
    }

    outcomes = [PartialOutcome()]

    async def work() -> Config:
        return await _given(writer.client, backup, marked_config, pace, progress, outcomes)

    draft = JournalDraft(
        "restore_stream", name, None, journalled, doubt="the server may still restore it"
    )
    loses = "; ".join(await restore_losses(writer.client, [restore_request])) or None
    try:
        await writer.send(
            draft, (name, restore_request.confirmed), work, lambda reply: reply["config"], loses,
            lambda: outcomes[-1],
        )  # fmt: skip
    except OutcomeUnknown as error:
        state_now = await _read_back(writer.client, name)
        raise OutcomeUnknown(f"{error}; {state_now}") from error
    doubt = f"{name} is restored, but was not compared with its backup to the end"
    try:
        finished = _finished(writer, restore_request, marked_config, restored_streams)
        await to_its_end(finished, doubt)
    except (RequestTimedOut, ServerGone) as error:
        raise OutcomeUnknown(f"{doubt}: {error}; {_shown_by(name)}") from error


def _shown_by(name: str) -> str:
    return f"natstui stream info {shlex.quote(name)} shows what the server has"


async def _again(work: Callable[[], Awaitable[T]], within_s: float | None = None) -> T:
    """Return the result of work that is repeated after a lost connection.

    Raises what the work raises, RequestTimedOut and ServerGone only after `within_s`, which is
    `RECONNECTED_S` by default.
    """
    until_s = time.monotonic() + (RECONNECTED_S if within_s is None else within_s)
    while True:
        try:
            return await work()
        except (RequestTimedOut, ServerGone):
            if time.monotonic() >= until_s:
                raise
            await asyncio.sleep(_LOOK_AGAIN_S)


async def _read_back(client: Client, name: str) -> str:
    """Return the present state of a stream on the server, as the end of a sentence."""
    try:
        info = json.loads(await _again(lambda: client.request(f"STREAM.INFO.{name}")))
    except NotFound:
        return f"read again, there is no stream {name}"
    except NatstuiError as error:
        return f"and {name} cannot be read again now ({error}): {_shown_by(name)}"
    mark_text = f", marked as {MARK}" if _mark_of(info["config"]) else ""
    return f"read again, {name} is there: {state_text(info['state'])}{mark_text}"


async def _finished(
    writer: Writer,
    restore_request: RestoreRequest,
    marked_config: Config,
    restored_streams: list[RestoredStream],
) -> None:
    name = restore_request.name
    try:
        restored_streams.append(await _compared(writer.client, restore_request, marked_config))
    except NotFound as error:
        raise Conflict(f"{name} was restored, but somebody deleted it meanwhile") from error


async def _compared(
    client: Client, restore_request: RestoreRequest, marked_config: Config
) -> RestoredStream:
    """Return the restored stream without its mark, compared with its backup.

    Raises Conflict when it is another stream or was changed meanwhile, NotFound without one, and
    RequestFailed when it differs.
    """
    name = restore_request.name
    created, count, remarks = await _again(
        lambda: _checked(client, restore_request, marked_config)
    )
    if _mark_of(marked_config):
        try:
            await _again(lambda: _unmark(client, restore_request.config, created))
        except (RequestTimedOut, ServerGone) as error:
            raise OutcomeUnknown(
                f"{name} is restored as it was, but no reply shows that its mark {MARK} was "
                f"removed: {error}; {await _read_back(client, name)}"
            ) from error
    # The server expires messages of a restored stream only now, and what it has then is reported.
    info = await _again(lambda: _unexpired_info(client, name))
    _check_same(name, is_same=info["created"] == created)
    state = info["state"]
    may_have_ttls = await _again(lambda: _may_have_ttls(client, restore_request.backup, info))
    problems, differences = differences_of(
        restore_request.backup, state, server_us(info), may_have_ttls=may_have_ttls
    )
    if problems:
        problems_text = "; ".join(problems)
        if not _is_used(info["config"], restore_request.backup.state, state):
            raise Conflict(f"{name} was restored, but changed meanwhile: {problems_text}")
        differences.append(f"changed since it was restored: {problems_text}")
    state.pop("deleted", None)
    count = number_at(state, "consumer_count") if count is None else count
    was_msgs = number_at(restore_request.backup.state, "messages")
    has_same_messages = not problems and number_at(state, "messages") == was_msgs
    all_remarks = (*differences, *remarks)
    return RestoredStream(name, state, count, all_remarks, has_same_messages)


def _is_used(config: Config, was: Config, state: Config) -> bool:
    """Return whether its own use may have removed messages of a stream that was complete.

    Its consumers delete what they ack, and a new message with a roll-up those before it.
    """
    if config.get("retention", "limits") != "limits":
        return True
    newer = number_at(state, "last_seq") - number_at(was, "last_seq")
    return newer > 0 and bool(config.get("allow_rollup_hdrs"))


async def _given(
    client: Client,
    backup: Backup,
    marked_config: Config,
    pace: Pace,
    progress: Progress,
    outcomes: list[PartialOutcome],
) -> Config:
    """Restore a stream and return its configuration.

    Cancelled, it removes what it has restored, and adds to `outcomes` what is there then.
    """
    try:
        with open_plain(backup.folder / DATA_FILE) as file:
            return await give(client, marked_config, backup.state, file, pace, progress)
    except OutcomeUnknown:
        raise  # all of it was sent: what the server makes of it is complete
    except (NatstuiError, asyncio.CancelledError) as error:
        if isinstance(error, RequestFailed) and error.err_code in _TAKEN:
            raise  # somebody made one meanwhile, and that one is not ours
        is_cancelled = isinstance(error, asyncio.CancelledError)
        within_s = 0.0 if is_cancelled else RECONNECTED_S
        removal_text = await _removed(client, marked_config, backup, within_s)
        if is_cancelled and removal_text not in ("", _REMOVED):
            raise RequestFailed(removal_text) from error
        absence_text = f"read again, there is no stream {marked_config['name']}"
        if is_cancelled:
            outcomes.append(
                PartialOutcome(
                    "failed" if removal_text else "unknown",
                    f"it was stopped: {removal_text or absence_text}",
                )
            )
        if isinstance(error, ServerGone) and not removal_text:
            removal_text = absence_text
        reason = str(error)
        if _OTHER_NAME in reason:
            reason = (
                f"this server restores {backup.stream} only under its own name: restore it so in "
                "another account, and copy it from there with natstui messages copy"
            )
        if isinstance(error, NatstuiError) and (removal_text or reason != str(error)):
            raise RequestFailed("; ".join(filter(None, (reason, removal_text)))) from error
        raise


async def _removed(
    client: Client, marked_config: Config, backup: Backup, within_s: float = 0.0
) -> str:
    """Delete the remains of a restore, and return that as text; empty without any.

    Waits `within_s` for a lost connection. Raises Conflict where more was stored in it than the
    backup has: that stays.
    """
    name, mark = marked_config["name"], _mark_of(marked_config)
    try:
        info = json.loads(await _again(lambda: client.request(f"STREAM.INFO.{name}"), within_s))
        if mark is None:
            return f"a stream {name} is on the server, and may be incomplete"
        if _mark_of(info["config"]) != mark:
            return f"somebody else created the stream {name} that is on the server: it stays"
        newer_count = number_at(info["state"], "last_seq") - number_at(backup.state, "last_seq")
        if newer_count > 0:
            # The server has all of it, and clients publish to it.
            raise Conflict(
                f"{name} is restored and stays on the server, marked as {MARK}: meanwhile "
                f"clients published {counted(newer_count, 'message')} to it"
            )
        await _again(lambda: client.request(f"STREAM.DELETE.{name}"), within_s)
    except NotFound:
        return ""
    except Conflict:
        raise
    except NatstuiError as error:
        part_text = f"a part of {name} may be on the server and could not be removed ({error})"
        return f"{part_text}: {_shown_by(name)}"
    return _REMOVED


def _check_same(name: str, *, is_same: bool) -> None:
    """Raise Conflict unless the stream of that name is the restored one."""
    if not is_same:
        raise Conflict(
            f"{name} was restored, but the stream that has the name now is "
            "another one: somebody deleted and recreated it meanwhile; it is left alone"
        )


async def _unmark(client: Client, config: Config, created: str) -> None:
    """Remove the mark of the restored stream, and set its limits; raises Conflict where it is
    another one.
    """
    name = config["name"]
    info = json.loads(await client.request(f"STREAM.INFO.{name}"))
    _check_same(name, is_same=info["created"] == created)
    current_config = info["config"]
    metadata = {
        key: text for key, text in (current_config.get("metadata") or {}).items() if key != MARK
    }
    limits = {key: config.get(key, -1) for key in _LIFTED if number_at(current_config, key) == -1}
    unmarked_config = {**current_config, **limits, "metadata": metadata}
    try:
        reply = json.loads(await client.request(f"STREAM.UPDATE.{name}", unmarked_config))
    except (RequestTimedOut, ServerGone, NotFound):
        raise
    except NatstuiError as error:
        raise RequestFailed(
            f"{name} is restored as it was, but its mark {MARK} could not be removed ({error})"
        ) from error
    if reply["created"] != created:
        raise Conflict(
            f"{name} was restored, but {recreated_text('stream', name)}, "
            "and has the configuration of the backup now"
        )


async def _checked(
    client: Client, restore_request: RestoreRequest, marked_config: Config
) -> tuple[str, int | None, list[str]]:
    """Return when a restored stream was created, how many consumers it has, and remarks.

    None where consumers may not be listed. Raises RequestFailed when it differs from its backup,
    Conflict when it is another stream.
    """
    backup = restore_request.backup
    try:
        names: Sequence[str] | None = await _consumers(client, restore_request)
    except PermissionDenied:
        names = None
    info = await _info(client, restore_request.name)
    is_same = _mark_of(info["config"]) == _mark_of(marked_config)
    _check_same(restore_request.name, is_same=is_same)
    problems, _ = differences_of(
        backup, info["state"], server_us(info),
        may_have_ttls=await _may_have_ttls(client, backup, info),
    )  # fmt: skip
    remarks = list[str]()
    if names is None:
        remarks.append(
            f"consumers not checked: no permission to CONSUMER.NAMES.{restore_request.name}"
        )
    elif missing := set(backup.consumers or ()) - set(names):
        problems.append(
            f"without {counted(len(missing), 'consumer')}: {', '.join(sorted(missing))}"
        )
    if problems:
        raise RequestFailed(
            f"{restore_request.name} is restored, but differs from its backup: "
            f"{'; '.join(problems)}; it is "
            f"still marked as {MARK}, and natstui stream rm {restore_request.name} removes it"
        )
    if names is not None and backup.consumers is None:
        remarks.append("the backup does not list its consumers: nothing to compare them with")
    if unfinished_text := unfinished_restore(backup.config):
        remarks.append(f"the stream of its backup was {unfinished_text}")
    remarks += await _read_again(client, backup)
    return str(info["created"]), None if names is None else len(names), remarks


async def _info(client: Client, name: str) -> Config:
    info: Config = json.loads(
        await client.request(f"STREAM.INFO.{name}", {"deleted_details": True})
    )
    return info


async def _unexpired_info(client: Client, name: str) -> Config:
    """Return the INFO of a stream once nothing in it is over max age, or after 20 s.

    Messages with a TTL of their own are not seen: their number has to stay the same for 2 s.
    """
    until_s = time.monotonic() + _EXPIRED_S
    settled_msgs, since_s = -1, time.monotonic()
    while True:
        info, now_s = await _info(client, name), time.monotonic()
        messages = number_at(info["state"], "messages")
        if messages != settled_msgs:
            settled_msgs, since_s = messages, now_s
        has_ttl = bool(info["config"].get("allow_msg_ttl")) and messages > 0
        is_settled = not has_ttl or now_s - since_s >= _SETTLED_S
        has_expired = messages > 0 and is_expired(info["config"], info["state"], server_us(info))
        if (is_settled and not has_expired) or now_s > until_s:
            return info
        await asyncio.sleep(_LOOK_AGAIN_S)


def is_expired(config: Config, state: Config, now_us: int) -> bool:
    """Return whether the first message of a stream is over its max age."""
    max_age_us = number_at(config, "max_age") // 1000
    return max_age_us > 0 and time_us(str(state.get("first_ts") or NEVER)) + max_age_us <= now_us


async def restore_losses(client: Client, restore_requests: Sequence[RestoreRequest]) -> list[str]:
    """Return what is removed for good when streams are restored, or copied twice, a clause each.

    Of themselves, since they are too old, and of work queues that they copy; and what their push
    consumers deliver. Raises the request errors.
    """
    now_us = time.time_ns() // 1000
    losses = [
        _expired_text(restore_request.backup, now_us) for restore_request in restore_requests
    ]
    restored = {
        restore_request.name: restore_request.backup for restore_request in restore_requests
    }
    for restore_request in restore_requests:
        losses += [
            f"{consumer} of {restore_request.name} delivers up to "
            f"{counted(f'{waiting_msgs:,}', 'message')} to {subject}"
            for consumer, subject, waiting_msgs in restore_request.backup.push_consumers
        ]
        losses += (await connections_loss(client, restore_request.config)).lines
        losses += [
            moved_text(name, number_at(restored[name].state, "messages"))
            for name, _ in upstreams(restore_request.config)
            if name in restored
            and restored[name].config.get("retention") == "workqueue"
            and number_at(restored[name].state, "messages")
        ]
    return list(filter(None, [*losses, *await _copied_twice(client, restored)]))


async def _copied_twice(client: Client, restored: dict[str, Backup]) -> list[str]:
    """Return which messages are copied once more when streams are restored, a clause each.

    A restored stream is a new one to those that have copied it.
    """
    existing: dict[str, Config] = {}
    with suppress(PermissionDenied):
        async for page in client.pages("STREAM.LIST"):
            infos = json.loads(page).get("streams") or ()
            existing |= {str(info["config"]["name"]): info for info in infos}
    copied = list[tuple[str, str, int]]()
    for name, backup in restored.items():
        last_us = time_us(str(backup.state.get("last_ts") or NEVER))
        for source in _sources_within(backup.config):
            if source in restored:
                copied.append((name, source, number_at(restored[source].state, "messages")))
            elif source in existing and time_us(existing[source]["created"]) > last_us:
                copied.append((name, source, number_at(existing[source]["state"], "messages")))
        copied += [
            (info["config"]["name"], name, number_at(backup.state, "messages"))
            for info in existing.values()
            if name in _sources_within(info["config"]) and number_at(info["state"], "messages")
        ]
    return [
        f"{name} copies up to {counted(f'{count:,}', 'message')} of {source} once more"
        for name, source, count in copied
        if count and (name not in restored or number_at(restored[name].state, "messages"))
    ]


def _sources_within(config: Config) -> list[str]:
    """Return the streams of the same account that a stream has as sources."""
    sources = config.get("sources") or ()
    return [str(source["name"]) for source in sources if not source.get("external")]


def _expired_text(backup: Backup, now_us: int) -> str:
    """Return what the server removes of a stream once it is restored; empty when nothing."""
    config, state = backup.config, backup.state
    if not number_at(state, "messages") or not is_expired(config, state, now_us):
        return ""
    newest = {"first_ts": state.get("last_ts")}
    part = "all" if is_expired(config, newest, now_us) else "some"
    count = counted(f"{number_at(state, 'messages'):,}", "message")
    age = duration_text(number_at(config, "max_age") / 1e9)
    return (
        f"the server removes {part} of {count} of {backup.stream} at once: older than {age}, the "
        "max age"
    )


async def _read_again(client: Client, backup: Backup) -> list[str]:
    """Return which sources are read from their beginning, a sentence each.

    The server takes one that was recreated since the backup for another stream than the one it has
    read, and has no message of an empty stream to continue after.
    """
    again, last = list[str](), str(backup.state.get("last_ts") or NEVER)
    for name in _sources_within(backup.config):
        try:
            info = json.loads(await client.request(f"STREAM.INFO.{name}"))
        except (NotFound, PermissionDenied):
            continue
        copied_text = f"the messages of {name} are copied once more"
        if not backup.state.get("messages"):
            if info["state"]["messages"]:
                again.append(f"it was empty, so it starts its source {name} anew: {copied_text}")
        elif time_us(info["created"]) > time_us(last):
            again.append(f"its source {name} was recreated: {copied_text}")
    return again


async def _may_have_ttls(client: Client, backup: Backup, info: Config) -> bool:
    """Return whether messages that a restored stream lacks may have had a TTL of their own.

    Where it has messages and none of those that are read has one, these had none either.
    """
    config, state = info["config"], info["state"]
    if not config.get("allow_msg_ttl"):
        return False
    if not 0 < number_at(state, "messages") < number_at(backup.state, "messages"):
        return True
    first_seq, last_seq = number_at(state, "first_seq"), number_at(state, "last_seq")
    step = max(1, (last_seq - first_seq) // _TTL_SAMPLE_MSGS)
    seqs = range(first_seq, last_seq + 1, step)
    for start in range(0, len(seqs), _TTLS_AT_ONCE):
        several = seqs[start : start + _TTLS_AT_ONCE]
        if any(await asyncio.gather(*(_expires(client, config["name"], seq) for seq in several))):
            return True
    return False


async def _expires(client: Client, stream: str, seq: int) -> bool:
    """Return whether the first message from a sequence on has a TTL of its own."""
    body = {"seq": seq, "next_by_subj": ">"}
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", body))
    except NotFound:
        return False
    return has_ttl(base64.b64decode(reply["message"].get("hdrs") or ""))


def differences_of(
    backup: Backup, state: Config, now_us: int, *, may_have_ttls: bool
) -> tuple[list[str], list[str]]:
    """Return the errors of a restored stream, and its acceptable differences.

    `state` is the server's state with deleted details, at `now_us`.
    """
    was, remarks = backup.state, list[str]()
    newer = number_at(state, "last_seq") - number_at(was, "last_seq")
    missing_msgs = number_at(was, "messages") + max(0, newer) - number_at(state, "messages")
    # Sequences that were given out while it was backed up; their messages are not in the backup.
    empty = min(_empty_after(was, state), max(missing_msgs, 0), newer) if newer > 0 else 0
    missing_msgs -= empty
    if newer > empty:
        remarks.append(
            f"{counted(newer - empty, 'message')} more than the backup describes, probably "
            "stored in the meantime"
        )
    if empty:
        remarks.append(
            f"{counted(empty, 'sequence')} at the end without a message: these messages were "
            "stored during the backup, and are not in it"
        )
    config = backup.config
    if not backup.is_whole and backup.removed_msgs:
        remarks.append(f"its backup is not complete: {removed_text(backup.removed_msgs)}")
    if backup.is_whole and 0 < missing_msgs <= backup.removed_msgs:
        removed = counted(f"{missing_msgs:,}", "message")
        remarks.append(f"without {removed} that were removed from the stream during the backup")
        return ([] if newer >= 0 else [_other("last sequence", was, state, "last_seq")]), remarks
    if missing_msgs > 0 and (reason := _expiry(config, was, now_us, may_have_ttls=may_have_ttls)):
        remarks.append(
            f"{counted(f'{missing_msgs:,}', 'message')} expired since the backup: {reason}"
        )
        return ([] if newer >= 0 else [_other("last sequence", was, state, "last_seq")]), remarks
    exact = {"messages": "messages", "first sequence": "first_seq"}
    exact |= {"bytes": "bytes", "last sequence": "last_seq", "subjects": "num_subjects"}
    if not was.get("messages"):
        del exact["first sequence"]  # an empty one may say 0, or the next
    if newer > 0:
        exact = {"first sequence": "first_seq"} if was.get("messages") else {}
    problems = [
        _other(label, was, state, key)
        for label, key in exact.items()
        if number_at(was, key) != number_at(state, key)
    ]
    if newer > 0 and missing_msgs:
        problems.append(
            f"{counted(f'{abs(missing_msgs):,}', 'message')} "
            f"{'less' if missing_msgs > 0 else 'more'}"
        )
    if newer > 0 and _may_have_removed(config, missing_msgs, newer):
        return [], [*remarks, *problems]
    return problems, remarks


def _expiry(config: Config, was: Config, now_us: int, *, may_have_ttls: bool) -> str | None:
    """Return why messages of a backup have expired; None if none can have."""
    reasons = []
    if is_expired(config, was, now_us):
        age_s = number_at(config, "max_age") / 1e9
        reasons.append(f"they were older than {duration_text(age_s)}, the max age")
    if may_have_ttls:
        reasons.append("they may have had a TTL of their own")
    return ", or ".join(reasons) or None


def _empty_after(was: Config, state: Config) -> int:
    """Return how many sequences after the last one of the description have no message.

    The server lists what was deleted before its last message, and counts all.
    """
    last_seq = number_at(was, "last_seq")
    before: int = sum(seq <= last_seq for seq in state.get("deleted") or ())
    return max(number_at(state, "num_deleted") - before, 0)


def _may_have_removed(config: Config, missing_msgs: int, newer: int) -> bool:
    """Return whether limits or consumers may have deleted messages while others were stored.

    At a limit of messages each new one deletes one.
    """
    if config.get("retention", "limits") != "limits" or number_at(config, "max_bytes") > 0:
        return True
    counts = ("max_msgs", "max_msgs_per_subject")
    return missing_msgs <= newer and any(number_at(config, key) > 0 for key in counts)


def _other(label: str, was: Config, state: Config, key: str) -> str:
    return f"{label} {number_at(state, key):,} instead of {number_at(was, key):,}"


async def _consumers(client: Client, restore_request: RestoreRequest) -> Sequence[str]:
    """Return the names of the consumers, once the cluster is stable, or after 20 s.

    Those of a replicated stream come a moment after it, and not all servers list them at once: the
    list has to be as long as the stream counts, and stay the same for 2 s.
    """
    until_s = time.monotonic() + _CONSUMERS_S
    stable_names, since_s = set[str](), time.monotonic()
    while True:
        names = set[str]()
        async for page in client.pages(f"CONSUMER.NAMES.{restore_request.name}"):
            names |= set(map(str, json.loads(page).get("consumers") or ()))
        info = json.loads(await client.request(f"STREAM.INFO.{restore_request.name}"))
        now_s = time.monotonic()
        if names != stable_names or len(names) != info["state"].get("consumer_count"):
            stable_names, since_s = names, now_s
        is_clustered = bool((info.get("cluster") or {}).get("name"))
        is_settled = not is_clustered or now_s - since_s >= _SETTLED_S
        is_complete = set(restore_request.backup.consumers or ()) <= names
        if (is_complete and is_settled) or now_s > until_s:
            return sorted(names)
        await asyncio.sleep(_LOOK_AGAIN_S)


def read_backups(folder: Path) -> list[Backup]:
    """Return the backups in a folder, in the order to restore them; raises BackupError."""
    folders = streams_of(folder) if folder.is_dir() and is_account(folder) else [folder]
    if not folders:
        raise BackupError(f"{folder} is the backup of an account without streams")
    backups = [read_backup(stream_folder) for stream_folder in folders]
    # A mirror or a stream with sources wants to see what it copies from.
    backups.sort(
        key=lambda backup: bool(backup.config.get("mirror") or backup.config.get("sources"))
    )
    return backups


def name_to_type(backups: Sequence[Backup], name: str) -> str:
    """Return the text that confirms a restore: the stream's name, or that of the folder."""
    return name if len(backups) == 1 else backups[0].folder.parent.name


async def present(client: Client, names: Sequence[str]) -> list[str]:
    """Return which of the names are used by existing streams."""
    return [name for name in names if await _present_config(client, name) is not None]


async def restore_all(
    writer: Writer,
    restore_requests: Sequence[RestoreRequest],
    pace: Pace,
    progress: OnRestored,
    restored_streams: list[RestoredStream],
    *,
    is_confirmed: bool,
) -> None:
    """Restore every stream, and add each to `restored_streams` when it exists.

    Nothing is done when one of them exists already. Raises what `restore_stream` raises.
    """
    for restore_request in restore_requests:
        await refuse_present(writer.client, restore_request)
    for restore_request in restore_requests:

        def tell(sent_bytes: int, restore_request: RestoreRequest = restore_request) -> None:
            progress(restore_request.name, sent_bytes, restore_request.backup.data_bytes)

        sure = replace(restore_request, confirmed=restore_request.name if is_confirmed else None)
        await restore_stream(writer, sure, pace, tell, restored_streams)


def state_text(state: Config) -> str:
    """Return messages, size and sequences of a stream as text."""
    size = bytes_text(state["bytes"])
    messages_text = counted(f"{state['messages']:,}", "message")
    return f"{messages_text}, {size}, {state['first_seq']}…{state['last_seq']}"
