"""Backs up streams with their configuration, consumers and data into a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, to_builtins

from natstui import __version__
from natstui.clean import clean_line
from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.files import file_name
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.asset import leader_of, replicas_of
from natstui.jetstream.connection.decode.consumers import ConsumerRow, read_consumers
from natstui.jetstream.connection.decode.streams import StreamRow, StreamState, read_state
from natstui.jetstream.connection.storing import count_missing
from natstui.jetstream.connection.writer import Config
from natstui.jetstream.managing.backup_folder import (
    ABOUT_FILE,
    ABOUT_FILE_FORMAT,
    CONFIG_FILE,
    DATA_FILE,
    check_data,
    check_description,
    create_backup_folder,
    left_out_text,
    removed_text,
    unfinished_restore_text,
    write_json,
)
from natstui.jetstream.managing.snapshot import RateLimit, read_snapshot
from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.model.assets.limits_loss import ACK_RETENTIONS, reached_limits
from natstui.model.servers.versions import VERSIONS_BACKING_UP_FEWER_CONSUMERS, is_version_in
from natstui.units import counted, moment_text

_SNAPSHOT_FAILED_CODE = 10064
_EXPIRES_SOON_S = 5.0
"""Time by which the oldest remaining message may be younger than max age, if older ones expired.
"""
_DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024
"""Default max payload of a server: a stream at max bytes has less free space than that."""


class OnProgress(Protocol):
    """Callback for the progress of a backup."""

    def __call__(self, stream: str, written_bytes: int, server_bytes: int, /) -> None:
        """Report the bytes written so far, and the size of the stream on the server."""


class WrittenBackup(Struct, frozen=True):
    """A written backup of one stream."""

    stream: str
    state: Config
    consumers_count: int | None
    """None without permission to list consumers; the data may contain some."""
    data_bytes: int
    remark: str = ""
    """Reason why the backup may be incomplete; empty without any sign of it."""
    removed_msgs: int = 0
    """Maximum number of messages of `state` that are not in the data: removed meanwhile."""
    is_whole: bool = True
    """Whether the data has all messages that the stream had to keep until the end of the backup.
    """


class StreamNotBackedUp(RequestFailed):
    """A stream cannot be backed up; other streams of the account can."""


def consumers_text(backup: WrittenBackup) -> str:
    """Return a text with the number of consumers in a backup."""
    if backup.consumers_count is None:
        return f"consumers unknown: no permission to CONSUMER.LIST.{backup.stream}"
    return counted(backup.consumers_count, "consumer")


def incomplete_texts(
    backups: Sequence[WrittenBackup], left_out_stream_texts: Sequence[str]
) -> list[str]:
    """Return a clause for each incomplete backup and each stream without one."""
    stream_texts = [
        f"{backup.stream}: {backup.remark}" for backup in backups if not backup.is_whole
    ]
    return [*stream_texts, *left_out_stream_texts]


async def back_up_stream(
    client: Client,
    stream: str,
    target: Path,
    rate_limit: RateLimit,
    progress: OnProgress,
    *,
    consumers: bool,
) -> WrittenBackup:
    """Back up a stream, with its consumers if `consumers`, into a folder that must not exist yet.

    Raises BackupError and the request errors; then no folder is created.
    """
    with create_backup_folder(target) as folder:
        return await _write_backup(
            client, stream, folder, rate_limit, progress, consumers=consumers
        )


async def back_up_account(
    client: Client,
    target: Path,
    rate_limit: RateLimit,
    progress: OnProgress,
    left_out_stream_texts: list[str],
    *,
    consumers: bool,
) -> Sequence[WrittenBackup]:
    """Back up every stream of the account, with consumers if `consumers`, into a new folder.

    A stream is left out if it is deleted or recreated meanwhile, or is in memory and the server
    cannot back it up: the reason is added to `left_out_stream_texts`, and written into the folder.
    Raises what `back_up_stream` raises.
    """
    names, streams_count = await _read_stream_names(client)
    if len(names) < streams_count:
        left_out_stream_texts.append(
            f"the server counts {streams_count:,} streams and names {len(names):,}"
        )
    creation_time_by_stream = {name: await _read_creation_time(client, name) for name in names}
    with create_backup_folder(target) as folder:
        backups = []
        for name in names:
            stream_folder = folder / file_name(name)
            stream_folder.mkdir(mode=0o700)
            try:
                backups.append(
                    await _write_backup(
                        client, name, stream_folder, rate_limit, progress, consumers=consumers,
                        created=creation_time_by_stream[name],
                    )
                )  # fmt: skip
            except (NotFound, StreamNotBackedUp) as error:
                for entry in stream_folder.iterdir():
                    entry.unlink()
                stream_folder.rmdir()
                deleted_text = f"stream {name} was deleted during the backup"
                left_out_stream_texts.append(
                    deleted_text if isinstance(error, NotFound) else str(error)
                )
        write_json(
            folder / ABOUT_FILE,
            {
                **_make_about_header(client),
                "streams": [backup.stream for backup in backups],
                "left_out": left_out_stream_texts,
            },
        )
        return backups


async def _read_creation_time(client: Client, stream: str) -> str | None:
    """Return the creation time of a stream as the server writes it; None if it is deleted."""
    try:
        return (await client.stream_info(stream)).created
    except NotFound:
        return None


async def _write_backup(
    client: Client, stream: str, folder: Path, rate_limit: RateLimit, progress: OnProgress, *,
    consumers: bool, created: str | None = None,
) -> WrittenBackup:  # fmt: skip
    """Back up a stream into a folder, with its consumers if `consumers`.

    `created` is its expected creation time. Raises StreamNotBackedUp if the stream is recreated
    meanwhile or the server cannot back it up, and the request errors.
    """
    consumer_rows, left_out_consumers = (
        await _read_consumers(client, stream) if consumers else ([], [])
    )
    info = await client.stream_info(stream)
    try:
        with (folder / DATA_FILE).open("wb") as file:
            snapshot = await read_snapshot(
                client, stream, file, rate_limit,
                lambda size: progress(stream, size, info.state.bytes), consumers=consumers,
            )  # fmt: skip
    except RequestFailed as error:
        is_in_memory = info.read_config().get("storage") == "memory"
        if error.err_code == _SNAPSHOT_FAILED_CODE and is_in_memory:
            raise StreamNotBackedUp(
                f"stream {stream} is in memory, and this server cannot back up such a stream",
                code=error.code, err_code=error.err_code,
            ) from error  # fmt: skip
        raise
    check_description(snapshot.reply, f"the reply to the snapshot of {stream}")
    replied_name = snapshot.reply["config"]["name"]
    if replied_name != stream:
        raise RequestFailed(
            f"the server sent a snapshot of {clean_line(replied_name)!r} instead of {stream!r}"
        )
    check_data(folder / DATA_FILE, f"the snapshot of {stream}")
    removed_msgs, reason, is_complete = await _count_removed(
        client, stream, created or info.created, snapshot.reply
    )
    if is_version_in(client.link.server_version, VERSIONS_BACKING_UP_FEWER_CONSUMERS):
        left_out_consumers += [
            row.name for row in consumer_rows or () if not _is_in_data(row, info)
        ]
    saved_consumers = None
    if consumer_rows is not None:
        saved_consumers = [
            {
                "name": row.name,
                "config": row.read_config(),
                "delivered": to_builtins(row.delivered),
                "ack_floor": to_builtins(row.ack_floor),
                "num_pending": row.num_pending,
            }
            for row in consumer_rows
        ]
    description: dict[str, Any] = {
        **_make_about_header(client),
        "stream": stream,
        "created": info.created,
        "files": {
            CONFIG_FILE: {"sha256": write_json(folder / CONFIG_FILE, snapshot.reply)},
            DATA_FILE: {"sha256": snapshot.sha256, "bytes": snapshot.data_bytes},
        },
        "consumers": saved_consumers,
        "removed_msgs": removed_msgs,
        "left_out_consumers": left_out_consumers,
        "is_whole": is_complete and not left_out_consumers,
    }
    write_json(folder / ABOUT_FILE, description)
    count = None if saved_consumers is None else len(saved_consumers)
    unfinished_text = unfinished_restore_text(snapshot.reply["config"])
    remarks = [f"stream {stream} was {unfinished_text}"] if unfinished_text else []
    if removed_msgs:
        remarks.append(f"{removed_text(removed_msgs)} ({reason})")
    if left_out_consumers:
        remarks.append(left_out_text(left_out_consumers))
    return WrittenBackup(
        stream, snapshot.reply["state"], count, snapshot.data_bytes, "; ".join(remarks),
        removed_msgs, is_complete and not left_out_consumers,
    )  # fmt: skip


def _is_in_data(consumer: ConsumerRow, stream: StreamRow) -> bool:
    """Return whether the snapshot of a server before 2.15 contains a consumer.

    It only contains the consumers that the stream's leader stores on disk.
    """
    is_in_memory = is_on(consumer.read_config(), "mem_storage")
    if is_in_memory and text_at(stream.read_config(), "storage") == "file":
        return False
    leader, cluster = leader_of(stream.cluster, None), consumer.cluster
    if leader is None or cluster is None:
        return True
    return leader in (cluster.leader, *(peer.name for peer in replicas_of(cluster)))


async def _count_removed(
    client: Client, stream: str, created: str, snapshot: Config
) -> tuple[int, str, bool]:
    """Return how many messages of a snapshot's state were removed since, the reason, and whether
    that is no loss: consumers acked them, or limits removed the oldest.

    A message that is removed while the snapshot is sent may not be in its data. Raises
    StreamNotBackedUp for a recreated stream, and the request errors.
    """
    before, config = read_state(snapshot["state"]), snapshot["config"]
    try:
        info = await client.stream_info(stream)
    except NotFound:
        return before.messages, "the stream was deleted", not before.messages
    if info.created != created:
        raise StreamNotBackedUp(f"stream {stream} was deleted and recreated during the backup")
    state = info.state
    if state.messages - (state.last_seq - before.last_seq) >= before.messages:
        return 0, "", True
    if state.num_deleted:
        state = (await client.stream_info(stream, {"deleted_details": True})).state
    gap_seqs_count = before.last_seq - before.first_seq + 1 - before.messages
    removed_msgs = count_missing([(before.first_seq, before.last_seq)], state) - gap_seqs_count
    if text_at(config, "retention") in ACK_RETENTIONS and state.consumer_count:
        return removed_msgs, "acks of its consumers, or a purge", True
    limits_text = find_reached_limits(config, before, state, info.server_at_us)
    return (
        removed_msgs,
        limits_text or "limits, or somebody",
        not removed_msgs or bool(limits_text),
    )


def find_reached_limits(
    config: Config, before: StreamState, state: StreamState, now_us: int
) -> str:
    """Return a text of the limits that explain why a stream's oldest messages were removed; else
    empty.

    `before` and `state` are its states before and at `now_us`, UTC. A limit per subject, a roll-up
    and a TTL do not count: they may remove newer messages too.
    """
    if state.num_deleted > before.num_deleted or number_at(config, "max_msgs_per_subject") > 0:
        return ""
    # A removed message is older than the oldest remaining one, or than the newest one before.
    oldest_at_us = state.first_at_us if state.messages else before.last_at_us
    age_s = (now_us - (oldest_at_us or 0)) / 1e6 + _EXPIRES_SOON_S
    relevant_limits_config = config | {"allow_rollup_hdrs": False, "allow_msg_ttl": False}
    if state.last_seq <= before.last_seq:
        # Limits of messages and bytes only remove old messages for new ones.
        relevant_limits_config |= {"max_msgs": -1, "max_bytes": -1}
    max_message_bytes = max(number_at(config, "max_msg_size"), 0) or _DEFAULT_MAX_PAYLOAD_BYTES
    if state.bytes + max_message_bytes < number_at(config, "max_bytes"):
        relevant_limits_config["max_bytes"] = -1
    return ", ".join(reached_limits(relevant_limits_config, state, age_s))


def _make_about_header(client: Client) -> dict[str, Any]:
    return {
        "format": ABOUT_FILE_FORMAT,
        "natstui": __version__,
        "made": moment_text(time.time_ns() // 1000) + "Z",
        "server": client.link.server_name,
        "account": client.link.account,
    }


async def _read_consumers(
    client: Client, stream: str
) -> tuple[list[ConsumerRow] | None, list[str]]:
    """Return the rows of durable consumers, and the names of unreachable consumers.

    Without permission to list consumers, return None and no names.
    """
    try:
        pages = [read_consumers(page) async for page in client.pages(f"CONSUMER.LIST.{stream}")]
    except PermissionDenied:
        return None, []
    unreachable_names = {name for page in pages for name in page.missing}
    durable_rows = [
        row
        for page in pages
        for row in page.rows
        if row.name not in unreachable_names and row.read_config().get("durable_name")
    ]
    return durable_rows, sorted(unreachable_names)


async def _read_stream_names(client: Client) -> tuple[list[str], int]:
    """Return the sorted names of all streams, and their number as the server counts it."""
    names, streams_count = set[str](), 0
    async for data in client.pages("STREAM.NAMES"):
        page = json.loads(data)
        names |= set(page.get("streams") or ())
        streams_count = max(streams_count, page.get("total") or 0)
    return sorted(names), streams_count
