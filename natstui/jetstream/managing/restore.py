"""Restoring a stream from a backup: never over one that exists, and compared when it is there.

The server shows a stream while it is still being restored, and keeps what it has of one that broke
off. Until it was compared, it therefore has `MARK` in its metadata.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from natstui.errors import (
    BackupError,
    Conflict,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestFailed,
    UsageError,
)
from natstui.files import open_plain
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.times import NEVER, time_us
from natstui.jetstream.connection.writer import Config, JournalDraft, Writer
from natstui.jetstream.managing.backup_folder import (
    DATA_FILE,
    Backup,
    is_account,
    read_backup,
    streams_of,
)
from natstui.jetstream.managing.snapshot import Pace, Progress, give, to_its_end
from natstui.model.assets.fields import number_at, without_server_metadata
from natstui.units import bytes_text, counted, duration_text, moment_text

MARK = "io.natstui.restoring"
_CONSUMERS_S = 20.0
_SETTLED_S = 2.0
_LOOK_AGAIN_S = 0.2
_EXPIRED_S = 20.0
"""The server removes what is over max age in its own time: at most so long is waited for it."""
_TAKEN = {10058, 10065, 10130}
"""The name, or one of the subjects, is somebody else's."""
_OTHER_NAME = "stream names do not match"
"""Of servers before 2.15."""
_BUCKETS = {"KV_": "key-value bucket", "OBJ_": "object store"}
OnRestored = Callable[[str, int, int], None]
"""Called with the stream, the bytes sent so far and those of its backup."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """How a stream shall be restored."""

    backup: Backup
    name: str
    replicas: int | None = None
    subjects: tuple[str, ...] = ()
    """Other subjects than before; messages keep theirs."""
    confirmed: str | None = None

    @property
    def config(self) -> Config:
        """Return the configuration it is to have; raises UsageError for one that cannot work."""
        config = {**without_server_metadata(self.backup.config), "name": self.name}
        kind = next((word for start, word in _BUCKETS.items()
                     if self.backup.stream.startswith(start)), None)  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class RestoredStream:
    """A stream as it is on the server, compared with its backup."""

    name: str
    state: Config
    consumers_count: int
    remarks: tuple[str, ...] = ()
    """What is otherwise than in the backup, and may be."""
    is_same: bool = True
    """Whether its messages are those of the backup."""


def restored_text(restored: RestoredStream) -> str:
    """Return what the server has of a restored stream, beside its remarks."""
    same = "the same as in its backup" if restored.is_same else "not the same as in its backup"
    return f"{restored.name} restored, {same}: {state_text(restored.state)}"


async def refuse_present(client: Client, name: str) -> None:
    """Raise Conflict when there is a stream of that name already."""
    try:
        info = json.loads(await client.request(f"STREAM.INFO.{name}"))
    except NotFound:
        return
    since = (info["config"].get("metadata") or {}).get(MARK)
    if since is not None:
        raise Conflict(
            f"stream {name} was left by a restore that began at {since} and did not end: it may "
            f"be incomplete; natstui stream rm {name} removes it"
        )
    raise Conflict(f"stream {name} exists already and is not overwritten: use --as NAME")


async def restore_stream(
    writer: Writer,
    wanted: RestoreRequest,
    pace: Pace,
    progress: Progress,
    done: list[RestoredStream],
) -> None:
    """Make a stream of a backup, compare both, and add it to `done`.

    Raises Conflict when there is one of that name, RequestFailed when the data is not complete:
    then nothing stays on the server; and when it is not as it was: then it stays, marked. One
    that is cancelled leaves nothing, or all of it when all of it was there.
    """
    config = wanted.config
    await refuse_present(writer.client, wanted.name)
    asked = {
        "folder": str(wanted.backup.folder),
        "stream": wanted.backup.stream,
        "messages": wanted.backup.state.get("messages"),
        **({"replicas": wanted.replicas} if wanted.replicas is not None else {}),
    }

    async def work() -> Config:
        return await _given(writer.client, wanted.backup, config, pace, progress)

    draft = JournalDraft(
        "restore_stream", wanted.name, None, asked,
        doubt=f"a part of {wanted.name} may be on the server, marked as {MARK}",
    )  # fmt: skip
    await writer.send(draft, (wanted.name, wanted.confirmed), work, lambda reply: reply["config"])
    await to_its_end(_finished(writer, wanted, config, done))


async def _finished(
    writer: Writer, wanted: RestoreRequest, config: Config, done: list[RestoredStream]
) -> None:
    count, remarks = await _checked(writer.client, wanted)
    if _can_be_marked(config):
        await _unmark(writer, wanted)
    # The server expires messages of a restored stream only now, and what it has then is reported.
    info = await _unexpired_info(writer.client, wanted.name)
    state = info["state"]
    wrong, differences = differences_of(wanted.backup, state, server_us(info))
    if wrong:
        # It was complete: its consumers and limits are at work.
        differences.append(f"changed since it was restored: {'; '.join(wrong)}")
    state.pop("deleted", None)
    count = number_at(state, "consumer_count") if count is None else count
    said = (*differences, *remarks)
    was_msgs = number_at(wanted.backup.state, "messages")
    is_same = not wrong and number_at(state, "messages") == was_msgs
    done.append(RestoredStream(wanted.name, state, count, said, is_same))


async def _given(
    client: Client, backup: Backup, config: Config, pace: Pace, progress: Progress
) -> Config:
    marked = config
    if _can_be_marked(config):
        since = moment_text(time.time_ns() // 1000) + "Z"
        marked = {**config, "metadata": {**(config.get("metadata") or {}), MARK: since}}
    try:
        with open_plain(backup.folder / DATA_FILE) as file:
            return await give(client, marked, backup.state, file, pace, progress)
    except (NatstuiError, asyncio.CancelledError) as error:
        if isinstance(error, RequestFailed) and error.err_code in _TAKEN:
            raise  # somebody made one meanwhile, and that one is not ours
        left = await _removed(client, config["name"], marked, backup)
        reason = str(error)
        if _OTHER_NAME in reason:
            reason = (
                f"this server restores {backup.stream} only under its own name: restore it so in "
                "another account, and copy it from there with natstui messages copy"
            )
        if isinstance(error, NatstuiError) and (left or reason != str(error)):
            raise RequestFailed("; ".join(filter(None, (reason, left)))) from error
        raise


def _can_be_marked(config: Config) -> bool:
    """Return whether the mark could be taken away again: not of what is sealed."""
    return not config.get("sealed")


async def _removed(client: Client, name: str, marked: Config, backup: Backup) -> str:
    """Remove what a restore left, and say it; nothing when nothing was left.

    Raises Conflict where more was stored in it than the backup has: that stays.
    """
    try:
        info = json.loads(await client.request(f"STREAM.INFO.{name}"))
        mark = (marked.get("metadata") or {}).get(MARK)
        if mark is None or (info["config"].get("metadata") or {}).get(MARK) != mark:
            return f"a stream {name} is on the server, and may be incomplete"
        newer_count = number_at(info["state"], "last_seq") - number_at(backup.state, "last_seq")
        if newer_count > 0:
            # The server has all of it, and clients publish to it.
            raise Conflict(
                f"{name} is restored and stays on the server, marked as {MARK}: meanwhile "
                f"clients published {counted(newer_count, 'message')} to it"
            )
        await client.request(f"STREAM.DELETE.{name}")
    except NotFound:
        return ""
    except Conflict:
        raise
    except NatstuiError as error:
        return f"a part of {name} may be on the server and could not be removed ({error})"
    return "the part restored until then was removed"


async def _unmark(writer: Writer, wanted: RestoreRequest) -> None:
    """Take the mark away: from now on it is a stream as every other."""
    found = json.loads(await writer.client.request(f"STREAM.INFO.{wanted.name}"))["config"]
    metadata = {key: text for key, text in (found.get("metadata") or {}).items() if key != MARK}
    plain = {**found, "metadata": metadata}
    try:
        await writer.client.request(f"STREAM.UPDATE.{wanted.name}", plain)
    except NatstuiError as error:
        raise RequestFailed(
            f"{wanted.name} is restored as it was, but its mark {MARK} could not be removed "
            f"({error})"
        ) from error


async def _checked(client: Client, wanted: RestoreRequest) -> tuple[int | None, list[str]]:
    """Return how many consumers a restored stream has, and what is to be said beside its messages.

    None where consumers may not be listed. Raises RequestFailed when it is not as in its backup.
    """
    backup = wanted.backup
    try:
        names: Sequence[str] | None = await _consumers(client, wanted)
    except PermissionDenied:
        names = None
    info = await _info(client, wanted.name)
    wrong, _ = differences_of(backup, info["state"], server_us(info))
    remarks = list[str]()
    if names is None:
        remarks.append(f"consumers not checked: no permission to CONSUMER.NAMES.{wanted.name}")
    elif missing := set(backup.consumers or ()) - set(names):
        wrong.append(f"without {counted(len(missing), 'consumer')}: {', '.join(sorted(missing))}")
    if wrong:
        raise RequestFailed(
            f"{wanted.name} is restored, but differs from its backup: {'; '.join(wrong)}; it is "
            f"still marked as {MARK}, and natstui stream rm {wanted.name} removes it"
        )
    if names is not None and backup.consumers is None:
        remarks.append("the backup does not list its consumers: nothing to compare them with")
    remarks += await _read_again(client, backup)
    return None if names is None else len(names), remarks


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
        is_over = messages > 0 and is_expired(info["config"], info["state"], server_us(info))
        if (is_settled and not is_over) or now_s > until_s:
            return info
        await asyncio.sleep(_LOOK_AGAIN_S)


def server_us(info: Config) -> int:
    """Return when the server wrote an INFO; by the local clock where an old one does not say."""
    return time_us(info["ts"]) if info.get("ts") else time.time_ns() // 1000


def is_expired(config: Config, state: Config, now_us: int) -> bool:
    """Return whether the first message of a stream is over its max age."""
    max_age_us = number_at(config, "max_age") // 1000
    return max_age_us > 0 and time_us(str(state.get("first_ts") or NEVER)) + max_age_us <= now_us


async def _read_again(client: Client, backup: Backup) -> list[str]:
    """Return which sources were recreated since the backup.

    The server takes such a one for another stream than the one it has read, and begins anew.
    """
    found, last = list[str](), str(backup.state.get("last_ts") or NEVER)
    for source in backup.config.get("sources") or ():
        if source.get("external") or not backup.state.get("messages"):
            continue
        try:
            info = json.loads(await client.request(f"STREAM.INFO.{source['name']}"))
        except (NotFound, PermissionDenied):
            continue
        if time_us(info["created"]) > time_us(last):
            name = source["name"]
            found.append(
                f"its source {name} was recreated: the messages of {name} are copied once more"
            )
    return found


def differences_of(backup: Backup, state: Config, now_us: int) -> tuple[list[str], list[str]]:
    """Return what is wrong with a restored stream, and what is otherwise but may be.

    `state` is what the server says with the details of what was deleted, at `now_us`.
    """
    was, remarks = backup.state, list[str]()
    newer = number_at(state, "last_seq") - number_at(was, "last_seq")
    gone = number_at(was, "messages") + max(0, newer) - number_at(state, "messages")
    # Sequences that were given out while it was backed up; their messages are not in the backup.
    empty = min(_empty_after(was, state), max(gone, 0), newer) if newer > 0 else 0
    gone -= empty
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
    if gone > 0 and (reason := _expiry(config, was, now_us)):
        remarks.append(f"{counted(f'{gone:,}', 'message')} expired since the backup: {reason}")
        return ([] if newer >= 0 else [_other("last sequence", was, state, "last_seq")]), remarks
    exact = {"messages": "messages", "first sequence": "first_seq"}
    exact |= {"bytes": "bytes", "last sequence": "last_seq", "subjects": "num_subjects"}
    if not was.get("messages"):
        del exact["first sequence"]  # an empty one may say 0, or the next
    if newer > 0:
        exact = {"first sequence": "first_seq"} if was.get("messages") else {}
    wrong = [
        _other(label, was, state, key)
        for label, key in exact.items()
        if number_at(was, key) != number_at(state, key)
    ]
    if newer > 0 and gone:
        wrong.append(f"{counted(f'{abs(gone):,}', 'message')} {'less' if gone > 0 else 'more'}")
    if newer > 0 and _may_have_removed(config, gone, newer):
        return [], [*remarks, *wrong]
    return wrong, remarks


def _expiry(config: Config, was: Config, now_us: int) -> str | None:
    """Return what has made messages of a backup expire; None when none can have."""
    reasons = []
    if is_expired(config, was, now_us):
        age_s = number_at(config, "max_age") / 1e9
        reasons.append(f"they were older than {duration_text(age_s)}, the max age")
    if config.get("allow_msg_ttl"):
        reasons.append("they may have had a TTL of their own")
    return ", or ".join(reasons) or None


def _empty_after(was: Config, state: Config) -> int:
    """Return how many sequences after the last one of the description have no message.

    The server lists what was deleted before its last message, and counts all.
    """
    last_seq = number_at(was, "last_seq")
    before: int = sum(seq <= last_seq for seq in state.get("deleted") or ())
    return max(number_at(state, "num_deleted") - before, 0)


def _may_have_removed(config: Config, gone: int, newer: int) -> bool:
    """Return whether limits or consumers may have removed messages while others were stored.

    At a number of messages each new one removes one.
    """
    if config.get("retention", "limits") != "limits" or number_at(config, "max_bytes") > 0:
        return True
    counts = ("max_msgs", "max_msgs_per_subject")
    return gone <= newer and any(number_at(config, key) > 0 for key in counts)


def _other(label: str, was: Config, state: Config, key: str) -> str:
    return f"{label} {number_at(state, key):,} instead of {number_at(was, key):,}"


async def _consumers(client: Client, wanted: RestoreRequest) -> Sequence[str]:
    """Return the names of the consumers, once the cluster has settled, or after 20 s.

    Those of a replicated stream come a moment after it, and not all servers list them at once:
    the list has to be as long as the stream counts, and stay the same for 2 s.
    """
    until_s = time.monotonic() + _CONSUMERS_S
    settled, since_s = set[str](), time.monotonic()
    while True:
        names = set[str]()
        async for page in client.pages(f"CONSUMER.NAMES.{wanted.name}"):
            names |= set(map(str, json.loads(page).get("consumers") or ()))
        info = json.loads(await client.request(f"STREAM.INFO.{wanted.name}"))
        now_s = time.monotonic()
        if names != settled or len(names) != info["state"].get("consumer_count"):
            settled, since_s = names, now_s
        is_clustered = bool((info.get("cluster") or {}).get("name"))
        is_settled = not is_clustered or now_s - since_s >= _SETTLED_S
        is_complete = set(wanted.backup.consumers or ()) <= names
        if (is_complete and is_settled) or now_s > until_s:
            return sorted(names)
        await asyncio.sleep(_LOOK_AGAIN_S)


def read_backups(folder: Path) -> list[Backup]:
    """Return the backups in a folder, in the order to restore them; raises BackupError."""
    folders = streams_of(folder) if folder.is_dir() and is_account(folder) else [folder]
    if not folders:
        raise BackupError(f"{folder} is the backup of an account without streams")
    backups = [read_backup(one) for one in folders]
    # A mirror or a stream with sources wants to see what it copies from.
    backups.sort(
        key=lambda backup: bool(backup.config.get("mirror") or backup.config.get("sources"))
    )
    return backups


def name_to_type(backups: Sequence[Backup], name: str) -> str:
    """Return the word that confirms a restore: the stream's name, or that of the folder."""
    return name if len(backups) == 1 else backups[0].folder.parent.name


async def present(client: Client, names: Sequence[str]) -> list[str]:
    """Return the names among these that streams have already."""
    found = []
    for name in names:
        try:
            await refuse_present(client, name)
        except Conflict:
            found.append(name)
    return found


async def restore_all(
    writer: Writer,
    every: Sequence[RestoreRequest],
    pace: Pace,
    progress: OnRestored,
    done: list[RestoredStream],
    *,
    confirmed: bool,
) -> None:
    """Make every stream, and add it to `done` as soon as it is there.

    Nothing is done when one of them exists already. Raises what `restore_stream` raises.
    """
    for one in every:
        await refuse_present(writer.client, one.name)
    for one in every:

        def tell(sent_bytes: int, one: RestoreRequest = one) -> None:
            progress(one.name, sent_bytes, one.backup.data_bytes)

        sure = replace(one, confirmed=one.name if confirmed else None)
        await restore_stream(writer, sure, pace, tell, done)


def state_text(state: Config) -> str:
    """Return messages, size and sequences of a stream in words."""
    size = bytes_text(state["bytes"])
    return f"{state['messages']:,} messages, {size}, {state['first_seq']}…{state['last_seq']}"
