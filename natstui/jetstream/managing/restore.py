"""Restores streams from backups, never over an existing one, and compares each with its backup.

The server lists a stream while it is being restored, and keeps the part of an interrupted restore.
So a stream that was not compared yet has `RESTORE_MARK` in its metadata.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

from natstui.errors import (
    BackupError,
    Conflict,
    ConnectionLost,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.files import open_regular_file
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import StreamRow, StreamState, read_stream
from natstui.jetstream.connection.writer import Config, JournalDraft, PartialOutcome, Writer
from natstui.jetstream.managing.backup_folder import (
    DATA_FILE,
    RESTORE_MARK,
    Backup,
    find_stream_folders,
    is_account_backup,
    read_backup,
    removed_text,
    unfinished_restore_text,
)
from natstui.jetstream.managing.configure import recreated_text
from natstui.jetstream.managing.losses import (
    local_upstreams,
    upstreams_and_republish_loss,
    work_queue_copy_text,
)
from natstui.jetstream.managing.snapshot import (
    OnTransferredBytes,
    RateLimit,
    finish_uninterrupted,
    send_snapshot,
)
from natstui.model.assets.fields import number_at, without_server_metadata
from natstui.model.assets.loss import has_ttl
from natstui.model.assets.subjects import overlap
from natstui.model.records.confirmation import Confirmation
from natstui.units import bytes_text, counted, duration_text, moment_text
from natstui.values import replace

_CONSUMERS_TIMEOUT_S = 20.0
_TTL_SAMPLE_MSGS = 10_000
_TTLS_READ_AT_ONCE = 100
_MIN_STABLE_S = 2.0
_CHECK_INTERVAL_S = 0.2
RECONNECT_TIMEOUT_S = 30.0
"""Time to wait for a lost connection, and for a stream that elects a leader."""
_EXPIRY_TIMEOUT_S = 20.0
"""Time to wait until the server has removed messages over max age."""
_NAME_IN_USE_CODES = {10058, 10065, 10130}
"""Error codes: the name, or one of the subjects, is in use."""
_OTHER_NAME_ERROR_TEXT = "stream names do not match"
"""Error text of servers before 2.15 if a stream is restored under another name."""
_BUCKET_KINDS = {"KV_": "key-value bucket", "OBJ_": "object store"}
_REMOVED_TEXT = "the part restored until then was removed"
T = TypeVar("T")


class OnRestoreProgress(Protocol):
    """Callback for the progress of a restore."""

    def __call__(self, stream: str, sent_bytes: int, backup_bytes: int, /) -> None:
        """Report the bytes sent so far, and the size of the stream's backup."""


class RestoreRequest(Struct, frozen=True):
    """A stream to restore, with changes of its name, replicas and subjects."""

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
        kind = self._bucket_kind
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

    def command_under_other_name(self, config: Config) -> str:
        """Return a text with the command that restores the stream under another name; empty for a
        bucket.

        `config` is the configuration of the existing stream, whose subjects cannot be used again.
        """
        if self._bucket_kind:
            return ""
        folder = shlex.quote(str(self.backup.folder))
        subjects, existing_subjects = (
            self.config.get("subjects") or (),
            config.get("subjects") or (),
        )
        subjects_option, text = "", "under another name"
        if any(
            overlap(subject, existing_subject)
            for subject in subjects
            for existing_subject in existing_subjects
        ):
            subjects_option, text = (
                " --subjects SUBJECT",
                "under another name, with other subjects",
            )
        return f"natstui stream restore {folder} --as NAME{subjects_option} restores it {text}"

    @property
    def _bucket_kind(self) -> str | None:
        stream, kinds = self.backup.stream, _BUCKET_KINDS.items()
        return next((kind for prefix, kind in kinds if stream.startswith(prefix)), None)


class RestoredStream(Struct, frozen=True):
    """A restored stream, and its comparison with the backup."""

    name: str
    state: StreamState
    consumers_count: int
    remarks: tuple[str, ...] = ()
    """Acceptable differences from the backup."""
    is_same: bool = True
    """Whether the stream has exactly the messages of the backup."""


def restored_text(stream: RestoredStream) -> str:
    """Return a text with the comparison and state of a restored stream, without its remarks."""
    comparison_text = (
        "the same as in its backup" if stream.is_same else "not the same as in its backup"
    )
    return f"{stream.name} restored, {comparison_text}: {state_text(stream.state)}"


async def check_not_existing(client: Client, restore_request: RestoreRequest) -> None:
    """Raise Conflict if a stream with the name of a request exists."""
    name = restore_request.name
    config = await _read_config(client, name)
    if config is None:
        return
    if unfinished_text := unfinished_restore_text(config):
        raise Conflict(f"stream {name} was {unfinished_text}; natstui stream rm {name} removes it")
    refusal_text = f"stream {name} exists already and is not overwritten"
    raise Conflict(
        ": ".join(filter(None, (refusal_text, restore_request.command_under_other_name(config))))
    )


async def _read_config(client: Client, name: str) -> Config | None:
    """Return the configuration of a stream; None if it does not exist."""
    try:
        return (await client.stream_info(name)).read_config()
    except NotFound:
        return None


def _read_restore_mark(config: Config) -> str | None:
    """Return when the unfinished restore of a stream began; None for any other stream."""
    mark: str | None = (config.get("metadata") or {}).get(RESTORE_MARK)
    return mark


_LIFTED_LIMITS = ("max_consumers", "max_msg_size")
"""Limits that a stream may exceed if they were lowered later; a restore may not exceed them."""


def _add_restore_mark(config: Config) -> Config:
    """Return a configuration with `RESTORE_MARK`, without the limits that a restore may exceed.

    The configuration of a sealed stream is returned unchanged: its mark could not be removed.
    """
    if config.get("sealed"):
        return config
    began_at = moment_text(time.time_ns() // 1000) + "Z"
    metadata = {**(config.get("metadata") or {}), RESTORE_MARK: began_at}
    return {**config, **dict.fromkeys(_LIFTED_LIMITS, -1), "metadata": metadata}


async def restore_stream(
    writer: Writer,
    restore_request: RestoreRequest,
    rate_limit: RateLimit,
    progress: OnTransferredBytes,
    restored_streams: list[RestoredStream],
) -> None:
    """Create a stream from a backup, compare both, and add it to `restored_streams`.

    Raises Conflict if a stream of that name exists. Raises RequestFailed if the data is
    incomplete, after removing the stream, and if the stream differs from its backup: then it
    stays, with `RESTORE_MARK`. A cancelled restore removes the stream, unless all data was sent.
    Raises OutcomeUnknown with the state on the server if no reply shows whether it was restored.
    """
    name, backup = restore_request.name, restore_request.backup
    marked_config = _add_restore_mark(restore_request.config)
    await check_not_existing(writer.client, restore_request)
    journal_arguments = {
        "folder": str(backup.folder),
        "stream": backup.stream,
        "messages": backup.state.messages,
        **({"replicas": restore_request.replicas} if restore_request.replicas is not None else {}),
    }

    outcomes = [PartialOutcome()]

    async def work() -> Config:
        return await _restore_data(
            writer.client, backup, marked_config, rate_limit, progress, outcomes
        )

    draft = JournalDraft(
        "restore_stream", name, None, journal_arguments, doubt="the server may still restore it"
    )
    loss_text = "; ".join(await restore_losses(writer.client, [restore_request])) or None
    try:
        await writer.send(
            draft, (name, restore_request.confirmed), work, lambda reply: reply["config"],
            loss_text, lambda: outcomes[-1],
        )  # fmt: skip
    except OutcomeUnknown as error:
        current_state_text = await _describe_state(writer.client, name)
        raise OutcomeUnknown(f"{error}; {current_state_text}") from error
    doubt_text = f"{name} is restored, but was not compared with its backup to the end"
    try:
        finish_work = _finish_restore(writer, restore_request, marked_config, restored_streams)
        await finish_uninterrupted(finish_work, doubt_text)
    except (RequestTimedOut, ConnectionLost) as error:
        raise OutcomeUnknown(f"{doubt_text}: {error}; {_info_command_text(name)}") from error


def _info_command_text(name: str) -> str:
    return f"natstui stream info {shlex.quote(name)} shows what the server has"


async def _retry(work: Callable[[], Awaitable[T]], within_s: float | None = None) -> T:
    """Return the result of `work`, which is repeated after a lost connection or a timeout.

    Raises what `work` raises; RequestTimedOut and ConnectionLost only after `within_s`, which is
    `RECONNECT_TIMEOUT_S` by default.
    """
    until_s = time.monotonic() + (RECONNECT_TIMEOUT_S if within_s is None else within_s)
    while True:
        try:
            return await work()
        except (RequestTimedOut, ConnectionLost):
            if time.monotonic() >= until_s:
                raise
            await asyncio.sleep(_CHECK_INTERVAL_S)


async def _describe_state(client: Client, name: str) -> str:
    """Return a clause with the current state of a stream on the server."""
    try:
        info = await _retry(lambda: client.stream_info(name))
    except NotFound:
        return f"read again, there is no stream {name}"
    except NatstuiError as error:
        return f"and {name} cannot be read again now ({error}): {_info_command_text(name)}"
    mark_text = f", marked as {RESTORE_MARK}" if _read_restore_mark(info.read_config()) else ""
    return f"read again, {name} is there: {state_text(info.state)}{mark_text}"


async def _finish_restore(
    writer: Writer,
    restore_request: RestoreRequest,
    marked_config: Config,
    restored_streams: list[RestoredStream],
) -> None:
    name = restore_request.name
    try:
        restored_streams.append(
            await _compare_and_remove_mark(writer.client, restore_request, marked_config)
        )
    except NotFound as error:
        raise Conflict(f"{name} was restored, but somebody deleted it meanwhile") from error


async def _compare_and_remove_mark(
    client: Client, restore_request: RestoreRequest, marked_config: Config
) -> RestoredStream:
    """Compare a restored stream with its backup, remove its `RESTORE_MARK`, and return it.

    Raises Conflict if it is another stream or was changed meanwhile, NotFound if it does not
    exist, and RequestFailed if it differs.
    """
    name = restore_request.name
    created, count, remarks = await _retry(
        lambda: _check_restored(client, restore_request, marked_config)
    )
    if _read_restore_mark(marked_config):
        try:
            await _retry(lambda: _remove_restore_mark(client, restore_request.config, created))
        except (RequestTimedOut, ConnectionLost) as error:
            raise OutcomeUnknown(
                f"{name} is restored as it was, but no reply shows that its mark "
                f"{RESTORE_MARK} was removed: {error}; {await _describe_state(client, name)}"
            ) from error
    # The server expires messages of a restored stream only now: the state after that counts.
    info = await _retry(lambda: _unexpired_info(client, name))
    _check_same(name, is_same_stream=info.created == created)
    state, backup_state = info.state, restore_request.backup.state
    may_have_ttls = await _retry(lambda: _may_have_ttls(client, restore_request.backup, info))
    problems, differences = find_differences(
        restore_request.backup, state, info.server_at_us, may_have_ttls=may_have_ttls
    )
    if problems:
        problems_text = "; ".join(problems)
        if not _can_clients_remove(info.read_config(), backup_state, state):
            raise Conflict(f"{name} was restored, but changed meanwhile: {problems_text}")
        differences.append(f"changed since it was restored: {problems_text}")
    count = state.consumer_count if count is None else count
    has_same_messages = not problems and state.messages == backup_state.messages
    all_remarks = (*differences, *remarks)
    return RestoredStream(name, state, count, all_remarks, has_same_messages)


def _can_clients_remove(config: Config, backup_state: StreamState, state: StreamState) -> bool:
    """Return whether clients of a complete stream may have removed messages.

    Consumers remove messages that they ack, and a new message with a roll-up removes others.
    """
    if config.get("retention", "limits") != "limits":
        return True
    return state.last_seq > backup_state.last_seq and bool(config.get("allow_rollup_hdrs"))


async def _restore_data(
    client: Client,
    backup: Backup,
    marked_config: Config,
    rate_limit: RateLimit,
    progress: OnTransferredBytes,
    outcomes: list[PartialOutcome],
) -> Config:
    """Send the data of a backup; return the reply, with the stream's configuration.

    After an error or a cancellation it removes the incomplete stream; after a cancellation it also
    adds the result to `outcomes`.
    """
    try:
        with open_regular_file(backup.folder / DATA_FILE) as file:
            return await send_snapshot(
                client, marked_config, backup.raw_state, file, rate_limit, progress
            )
    except OutcomeUnknown:
        raise  # all data was sent: the server restores the stream completely
    except (NatstuiError, asyncio.CancelledError) as error:
        if isinstance(error, RequestFailed) and error.err_code in _NAME_IN_USE_CODES:
            raise  # somebody created a stream of that name meanwhile
        is_cancelled = isinstance(error, asyncio.CancelledError)
        within_s = 0.0 if is_cancelled else RECONNECT_TIMEOUT_S
        removal_text = await _remove_remains(client, marked_config, backup, within_s)
        if is_cancelled and removal_text not in ("", _REMOVED_TEXT):
            raise RequestFailed(removal_text) from error
        absence_text = f"read again, there is no stream {marked_config['name']}"
        if is_cancelled:
            outcomes.append(
                PartialOutcome(
                    "failed" if removal_text else "unknown",
                    f"it was stopped: {removal_text or absence_text}",
                )
            )
        if isinstance(error, ConnectionLost) and not removal_text:
            removal_text = absence_text
        reason = str(error)
        if _OTHER_NAME_ERROR_TEXT in reason:
            reason = (
                f"this server restores {backup.stream} only under its own name: restore it so in "
                "another account, and copy it from there with natstui messages copy"
            )
        if isinstance(error, NatstuiError) and (removal_text or reason != str(error)):
            raise RequestFailed("; ".join(filter(None, (reason, removal_text)))) from error
        raise


async def _remove_remains(
    client: Client, marked_config: Config, backup: Backup, within_s: float = 0.0
) -> str:
    """Delete an incompletely restored stream; return a text with the result, empty without one.

    Waits `within_s` for a lost connection. Raises Conflict if clients have published to the
    stream: then it is complete, and stays.
    """
    name, mark = marked_config["name"], _read_restore_mark(marked_config)
    try:
        info = await _retry(lambda: client.stream_info(name), within_s)
        if mark is None:
            return f"a stream {name} is on the server, and may be incomplete"
        if _read_restore_mark(info.read_config()) != mark:
            return f"somebody else created the stream {name} that is on the server: it stays"
        newer_count = info.state.last_seq - backup.state.last_seq
        if newer_count > 0:
            # The stream is complete, and clients publish to it.
            raise Conflict(
                f"{name} is restored and stays on the server, marked as {RESTORE_MARK}: meanwhile "
                f"clients published {counted(newer_count, 'message')} to it"
            )
        await _retry(lambda: client.request(f"STREAM.DELETE.{name}"), within_s)
    except NotFound:
        return ""
    except Conflict:
        raise
    except NatstuiError as error:
        part_text = f"a part of {name} may be on the server and could not be removed ({error})"
        return f"{part_text}: {_info_command_text(name)}"
    return _REMOVED_TEXT


def _check_same(name: str, *, is_same_stream: bool) -> None:
    """Raise Conflict unless `is_same_stream`: whether the stream `name` is the restored one."""
    if not is_same_stream:
        raise Conflict(
            f"{name} was restored, but the stream that has the name now is "
            "another one: somebody deleted and recreated it meanwhile; it is left alone"
        )


async def _remove_restore_mark(client: Client, config: Config, created: str) -> None:
    """Remove the `RESTORE_MARK` of a restored stream, and set its limits.

    Raises Conflict if it is another stream.
    """
    name = config["name"]
    info = await client.stream_info(name)
    _check_same(name, is_same_stream=info.created == created)
    current_config = info.read_config()
    metadata = {
        key: text
        for key, text in (current_config.get("metadata") or {}).items()
        if key != RESTORE_MARK
    }
    lifted_limits = {
        key: config.get(key, -1) for key in _LIFTED_LIMITS if number_at(current_config, key) == -1
    }
    unmarked_config = {**current_config, **lifted_limits, "metadata": metadata}
    try:
        reply = read_stream(await client.request(f"STREAM.UPDATE.{name}", unmarked_config))
    except (RequestTimedOut, ConnectionLost, NotFound):
        raise
    except NatstuiError as error:
        raise RequestFailed(
            f"{name} is restored as it was, but its mark {RESTORE_MARK} could not be "
            f"removed ({error})"
        ) from error
    if reply.created != created:
        raise Conflict(
            f"{name} was restored, but {recreated_text('stream', name)}, "
            "and has the configuration of the backup now"
        )


async def _check_restored(
    client: Client, restore_request: RestoreRequest, marked_config: Config
) -> tuple[str, int | None, list[str]]:
    """Return the creation time, number of consumers and remarks of a restored stream.

    The number is None without permission to list consumers. Raises RequestFailed if the stream
    differs from its backup, Conflict if it is another stream.
    """
    backup = restore_request.backup
    try:
        names: Sequence[str] | None = await _read_consumer_names(client, restore_request)
    except PermissionDenied:
        names = None
    info = await _read_info(client, restore_request.name)
    is_same_stream = _read_restore_mark(info.read_config()) == _read_restore_mark(marked_config)
    _check_same(restore_request.name, is_same_stream=is_same_stream)
    problems, _ = find_differences(
        backup, info.state, info.server_at_us,
        may_have_ttls=await _may_have_ttls(client, backup, info),
    )  # fmt: skip
    remarks = list[str]()
    if names is None:
        remarks.append(
            f"consumers not checked: no permission to CONSUMER.NAMES.{restore_request.name}"
        )
    elif missing_consumers := set(backup.consumers or ()) - set(names):
        problems.append(
            f"without {counted(len(missing_consumers), 'consumer')}: "
            f"{', '.join(sorted(missing_consumers))}"
        )
    if problems:
        raise RequestFailed(
            f"{restore_request.name} is restored, but differs from its backup: "
            f"{'; '.join(problems)}; it is still marked as {RESTORE_MARK}, and "
            f"natstui stream rm {restore_request.name} removes it"
        )
    if names is not None and backup.consumers is None:
        remarks.append("the backup does not list its consumers: nothing to compare them with")
    if unfinished_text := unfinished_restore_text(backup.config):
        remarks.append(f"the stream of its backup was {unfinished_text}")
    remarks += await _describe_reread_sources(client, backup)
    return info.created, None if names is None else len(names), remarks


async def _read_info(client: Client, name: str) -> StreamRow:
    return await client.stream_info(name, {"deleted_details": True})


async def _unexpired_info(client: Client, name: str) -> StreamRow:
    """Return the INFO of a stream once it has no message over max age, or after 20 s.

    If messages may have a TTL, the number of messages must also be stable for 2 s.
    """
    until_s = time.monotonic() + _EXPIRY_TIMEOUT_S
    stable_msgs, stable_since_s = -1, time.monotonic()
    while True:
        info, now_s = await _read_info(client, name), time.monotonic()
        config, stored_msgs = info.read_config(), info.state.messages
        if stored_msgs != stable_msgs:
            stable_msgs, stable_since_s = stored_msgs, now_s
        may_have_ttls = bool(config.get("allow_msg_ttl")) and stored_msgs > 0
        is_stable = not may_have_ttls or now_s - stable_since_s >= _MIN_STABLE_S
        has_expired_messages = stored_msgs > 0 and is_expired(
            config, info.state.first_at_us, info.server_at_us
        )
        if (is_stable and not has_expired_messages) or now_s > until_s:
            return info
        await asyncio.sleep(_CHECK_INTERVAL_S)


def is_expired(config: Config, stored_at_us: int | None, now_us: int) -> bool:
    """Return whether a message is older than its stream's max age.

    With a max age, True for an unknown time.
    """
    max_age_us = number_at(config, "max_age") // 1000
    return max_age_us > 0 and (stored_at_us or 0) + max_age_us <= now_us


async def restore_losses(client: Client, restore_requests: Sequence[RestoreRequest]) -> list[str]:
    """Return a clause for each side effect of restoring streams; raises the request errors.

    Side effects are expired messages, messages removed from work queues or copied twice, and
    messages that push consumers deliver.
    """
    now_us = time.time_ns() // 1000
    loss_texts = [
        _expired_text(restore_request.backup, now_us) for restore_request in restore_requests
    ]
    backups_by_stream = {
        restore_request.name: restore_request.backup for restore_request in restore_requests
    }
    for restore_request in restore_requests:
        loss_texts += [
            f"{consumer} of {restore_request.name} delivers up to "
            f"{counted(f'{waiting_msgs:,}', 'message')} to {subject}"
            for consumer, subject, waiting_msgs in restore_request.backup.push_consumers
        ]
        loss_texts += (await upstreams_and_republish_loss(client, restore_request.config)).lines
        loss_texts += [
            work_queue_copy_text(name, backups_by_stream[name].state.messages)
            for name, _ in local_upstreams(restore_request.config)
            if name in backups_by_stream
            and backups_by_stream[name].config.get("retention") == "workqueue"
            and backups_by_stream[name].state.messages
        ]
    return list(
        filter(None, [*loss_texts, *await _describe_copied_twice(client, backups_by_stream)])
    )


async def _describe_copied_twice(
    client: Client, backups_by_stream: dict[str, Backup]
) -> list[str]:
    """Return a clause for each stream that copies messages once more after a restore.

    For streams that have copied a restored stream before, it is a new stream.
    """
    infos_by_stream: dict[str, StreamRow] = {}
    with suppress(PermissionDenied):
        infos_by_stream = {info.name: info async for info in client.stream_rows()}
    sources_by_stream = {
        name: _local_sources(info.read_config()) for name, info in infos_by_stream.items()
    }
    state_by_backup = {name: backup.state for name, backup in backups_by_stream.items()}
    copier_source_and_msgs = list[tuple[str, str, int]]()
    for name, backup in backups_by_stream.items():
        backup_state = state_by_backup[name]
        for source in _local_sources(backup.config):
            if source in backups_by_stream:
                copier_source_and_msgs.append((name, source, state_by_backup[source].messages))
            elif source in infos_by_stream and infos_by_stream[source].created_at_us > (
                backup_state.last_at_us or 0
            ):
                copier_source_and_msgs.append(
                    (name, source, infos_by_stream[source].state.messages)
                )
        copier_source_and_msgs += [
            (info.name, name, backup_state.messages)
            for info in infos_by_stream.values()
            if name in sources_by_stream[info.name] and info.state.messages
        ]
    return [
        f"{name} copies up to {counted(f'{count:,}', 'message')} of {source} once more"
        for name, source, count in copier_source_and_msgs
        if count and (name not in state_by_backup or state_by_backup[name].messages)
    ]


def _local_sources(config: Config) -> list[str]:
    """Return the names of a stream's sources in the same account."""
    sources = config.get("sources") or ()
    return [str(source["name"]) for source in sources if not source.get("external")]


def _expired_text(backup: Backup, now_us: int) -> str:
    """Return a clause about expired messages of a backup, which the server will remove; or ""."""
    config, state = backup.config, backup.state
    if not state.messages or not is_expired(config, state.first_at_us, now_us):
        return ""
    part_text = "all" if is_expired(config, state.last_at_us, now_us) else "some"
    count_text = counted(f"{state.messages:,}", "message")
    age_text = duration_text(number_at(config, "max_age") / 1e9)
    return (
        f"the server removes {part_text} of {count_text} of {backup.stream} at once: older than "
        f"{age_text}, the max age"
    )


async def _describe_reread_sources(client: Client, backup: Backup) -> list[str]:
    """Return a sentence for each source that is copied from its beginning again.

    That is a source that was recreated since the backup, and any source of an empty stream.
    """
    sentences, backup_state = list[str](), backup.state
    for name in _local_sources(backup.config):
        try:
            info = await client.stream_info(name)
        except (NotFound, PermissionDenied):
            continue
        copied_text = f"the messages of {name} are copied once more"
        if not backup_state.messages:
            if info.state.messages:
                sentences.append(
                    f"it was empty, so it copies its source {name} from the start: {copied_text}"
                )
        elif info.created_at_us > (backup_state.last_at_us or 0):
            sentences.append(f"its source {name} was recreated: {copied_text}")
    return sentences


async def _may_have_ttls(client: Client, backup: Backup, info: StreamRow) -> bool:
    """Return whether missing messages of a restored stream may have expired by their own TTL.

    If some of its messages are left, a sample of them must contain a TTL.
    """
    config, state = info.read_config(), info.state
    if not config.get("allow_msg_ttl"):
        return False
    if not 0 < state.messages < backup.state.messages:
        return True
    step = max(1, (state.last_seq - state.first_seq) // _TTL_SAMPLE_MSGS)
    seqs = range(state.first_seq, state.last_seq + 1, step)
    for start_index in range(0, len(seqs), _TTLS_READ_AT_ONCE):
        sampled_seqs = seqs[start_index : start_index + _TTLS_READ_AT_ONCE]
        if any(
            await asyncio.gather(
                *(_has_ttl_from(client, config["name"], seq) for seq in sampled_seqs)
            )
        ):
            return True
    return False


async def _has_ttl_from(client: Client, stream: str, seq: int) -> bool:
    """Return whether the first message at or after a sequence has its own TTL."""
    body = {"seq": seq, "next_by_subj": ">"}
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", body))
    except NotFound:
        return False
    return has_ttl(base64.b64decode(reply["message"].get("hdrs") or ""))


def find_differences(
    backup: Backup, state: StreamState, now_us: int, *, may_have_ttls: bool
) -> tuple[list[str], list[str]]:
    """Return the problems of a restored stream, and its acceptable differences, as texts.

    `state` is the stream's state with deleted details, at `now_us` (UTC); `may_have_ttls` is
    whether messages may have expired by their own TTL.
    """
    backup_state, remarks = backup.state, list[str]()
    newer_count = state.last_seq - backup_state.last_seq
    missing_msgs = backup_state.messages + max(0, newer_count) - state.messages
    # Sequences assigned during the backup, whose messages are not in the backup.
    empty_seqs_count = (
        min(_count_deleted_after_backup(backup_state, state), max(missing_msgs, 0), newer_count)
        if newer_count > 0
        else 0
    )
    missing_msgs -= empty_seqs_count
    if newer_count > empty_seqs_count:
        remarks.append(
            f"{counted(newer_count - empty_seqs_count, 'message')} more than the backup describes,"
            " probably stored in the meantime"
        )
    if empty_seqs_count:
        remarks.append(
            f"{counted(empty_seqs_count, 'sequence')} at the end without a message: these messages"
            " were stored during the backup, and are not in it"
        )
    config = backup.config
    if not backup.is_complete and backup.removed_msgs:
        remarks.append(f"its backup is not complete: {removed_text(backup.removed_msgs)}")
    if backup.is_complete and 0 < missing_msgs <= backup.removed_msgs:
        removed_count_text = counted(f"{missing_msgs:,}", "message")
        remarks.append(
            f"without {removed_count_text} that were removed from the stream during the backup"
        )
        return (
            []
            if newer_count >= 0
            else [_difference_text("last sequence", backup_state, state, "last_seq")]
        ), remarks
    if missing_msgs > 0 and (
        reason := _describe_expiry(config, backup_state, now_us, may_have_ttls=may_have_ttls)
    ):
        remarks.append(
            f"{counted(f'{missing_msgs:,}', 'message')} expired since the backup: {reason}"
        )
        return (
            []
            if newer_count >= 0
            else [_difference_text("last sequence", backup_state, state, "last_seq")]
        ), remarks
    fields_by_label = {"messages": "messages", "first sequence": "first_seq"}
    fields_by_label |= {"bytes": "bytes", "last sequence": "last_seq", "subjects": "num_subjects"}
    if not backup_state.messages:
        del fields_by_label["first sequence"]  # of an empty stream it may be 0, or the next
    if newer_count > 0:
        fields_by_label = {"first sequence": "first_seq"} if backup_state.messages else {}
    problems = [
        _difference_text(label, backup_state, state, key)
        for label, key in fields_by_label.items()
        if getattr(backup_state, key) != getattr(state, key)
    ]
    if newer_count > 0 and missing_msgs:
        problems.append(
            f"{counted(f'{abs(missing_msgs):,}', 'message')} "
            f"{'less' if missing_msgs > 0 else 'more'}"
        )
    if newer_count > 0 and _may_have_removed(config, missing_msgs, newer_count):
        return [], [*remarks, *problems]
    return problems, remarks


def _describe_expiry(
    config: Config, backup_state: StreamState, now_us: int, *, may_have_ttls: bool
) -> str | None:
    """Return the reason why messages of a backup may have expired; None without one."""
    expiry_reasons = []
    if is_expired(config, backup_state.first_at_us, now_us):
        age_s = number_at(config, "max_age") / 1e9
        expiry_reasons.append(f"they were older than {duration_text(age_s)}, the max age")
    if may_have_ttls:
        expiry_reasons.append("they may have had a TTL of their own")
    return ", or ".join(expiry_reasons) or None


def _count_deleted_after_backup(backup_state: StreamState, state: StreamState) -> int:
    """Return how many sequences after the last one of the backup have no message.

    The server lists sequences deleted before its last message, and counts all deleted ones.
    """
    deleted_before_count = sum(seq <= backup_state.last_seq for seq in state.deleted or ())
    return max(state.num_deleted - deleted_before_count, 0)


def _may_have_removed(config: Config, missing_msgs: int, newer_count: int) -> bool:
    """Return whether limits or consumers may have removed `missing_msgs` messages since a backup.

    `newer_count` messages were stored since: at a limit of messages, each removes an old one.
    """
    if config.get("retention", "limits") != "limits" or number_at(config, "max_bytes") > 0:
        return True
    limit_keys = ("max_msgs", "max_msgs_per_subject")
    return missing_msgs <= newer_count and any(number_at(config, key) > 0 for key in limit_keys)


def _difference_text(label: str, backup_state: StreamState, state: StreamState, key: str) -> str:
    return f"{label} {getattr(state, key):,} instead of {getattr(backup_state, key):,}"


async def _read_consumer_names(client: Client, restore_request: RestoreRequest) -> Sequence[str]:
    """Return the names of a restored stream's consumers, once they are complete, or after 20 s.

    In a cluster, consumers appear after their stream, and not on all servers at once: the list
    must be as long as the stream counts, and stay the same for 2 s.
    """
    until_s = time.monotonic() + _CONSUMERS_TIMEOUT_S
    stable_names, stable_since_s = set[str](), time.monotonic()
    while True:
        names = set[str]()
        async for page in client.pages(f"CONSUMER.NAMES.{restore_request.name}"):
            names |= set(map(str, json.loads(page).get("consumers") or ()))
        info = await client.stream_info(restore_request.name)
        now_s = time.monotonic()
        if names != stable_names or len(names) != info.state.consumer_count:
            stable_names, stable_since_s = names, now_s
        is_clustered = info.cluster is not None and bool(info.cluster.name)
        is_stable = not is_clustered or now_s - stable_since_s >= _MIN_STABLE_S
        is_complete = set(restore_request.backup.consumers or ()) <= names
        if (is_complete and is_stable) or now_s > until_s:
            return sorted(names)
        await asyncio.sleep(_CHECK_INTERVAL_S)


def read_backups(folder: Path) -> list[Backup]:
    """Return the backups in a folder in the order of restoring them.

    Raises BackupError if there is none, or one is missing or invalid.
    """
    stream_folders = (
        find_stream_folders(folder) if folder.is_dir() and is_account_backup(folder) else [folder]
    )
    if not stream_folders:
        raise BackupError(f"{folder} is the backup of an account without streams")
    backups = [read_backup(stream_folder) for stream_folder in stream_folders]
    # Mirrors and streams with sources come last, after the streams that they copy.
    backups.sort(
        key=lambda backup: bool(backup.config.get("mirror") or backup.config.get("sources"))
    )
    return backups


async def restore_confirmation(
    writer: Writer, restore_requests: Sequence[RestoreRequest]
) -> Confirmation:
    """Return the confirmation of a restore: its losses, and whether a name must be typed.

    Raises the request errors.
    """
    losses = tuple(await restore_losses(writer.client, restore_requests))
    effect = f"this creates {counted(len(restore_requests), 'stream')} from the backup"
    return Confirmation(
        writer.prompt_text("; ".join((effect, *losses))),
        name_to_confirm(restore_requests),
        needed=bool(losses) or writer.client.connection.production,
        lines=losses,
        place=writer.server_identity,
    )


def name_to_confirm(restore_requests: Sequence[RestoreRequest]) -> str:
    """Return the name to type as confirmation: that of the single stream, else of the folder."""
    first_request = restore_requests[0]
    is_single = len(restore_requests) == 1
    return first_request.name if is_single else first_request.backup.folder.parent.name


async def find_existing_names(client: Client, names: Sequence[str]) -> list[str]:
    """Return the names in `names` that are names of existing streams."""
    return [name for name in names if await _read_config(client, name) is not None]


async def restore_all(
    writer: Writer,
    restore_requests: Sequence[RestoreRequest],
    rate_limit: RateLimit,
    progress: OnRestoreProgress,
    restored_streams: list[RestoredStream],
    *,
    is_confirmed: bool,
) -> None:
    """Restore all streams, and add each restored one to `restored_streams`.

    Nothing is restored if one of them exists already. `is_confirmed` is whether the user has
    confirmed all of them. Raises what `restore_stream` raises.
    """
    for restore_request in restore_requests:
        await check_not_existing(writer.client, restore_request)
    for restore_request in restore_requests:

        def report_progress(
            sent_bytes: int, restore_request: RestoreRequest = restore_request
        ) -> None:
            progress(restore_request.name, sent_bytes, restore_request.backup.data_bytes)

        confirmed_request = replace(
            restore_request, confirmed=restore_request.name if is_confirmed else None
        )
        await restore_stream(
            writer, confirmed_request, rate_limit, report_progress, restored_streams
        )


def state_text(state: StreamState) -> str:
    """Return a text with the messages, size and sequences of a stream."""
    messages_text = counted(f"{state.messages:,}", "message")
    return f"{messages_text}, {bytes_text(state.bytes)}, {state.first_seq}…{state.last_seq}"
