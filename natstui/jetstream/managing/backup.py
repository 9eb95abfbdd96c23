"""Backups: streams with their configuration, consumers and data, written into a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from natstui import __version__
from natstui.clean import clean_line
from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.files import file_name
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import missing_count
from natstui.jetstream.connection.times import server_us, time_us
from natstui.jetstream.connection.writer import Config
from natstui.jetstream.managing.backup_folder import (
    ABOUT_FILE,
    CONFIG_FILE,
    DATA_FILE,
    FORMAT,
    check_data,
    check_description,
    left_out_text,
    new_folder,
    removed_text,
    unfinished_restore,
    write_json,
)
from natstui.jetstream.managing.snapshot import Pace, take
from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.model.assets.limits_loss import CONSUMED, reached_limits
from natstui.model.servers.versions import LEAVES_OUT_CONSUMERS, is_in
from natstui.units import counted, moment_text

_SNAPSHOT_FAILED = 10064
_EXPIRES_SOON_S = 5.0
"""How much longer than the max age of its stream the oldest message that is left may still have,
if the ones before it have expired."""
_LARGEST_BYTES = 1024 * 1024
"""Max payload of a server by default: at its limit of bytes, a stream lacks less than that."""
OnProgress = Callable[[str, int, int], None]
"""Called with the stream, the bytes written so far and those the stream takes on the server."""


@dataclass(frozen=True, slots=True)
class Written:
    """A written backup of one stream."""

    stream: str
    state: Config
    consumers_count: int | None
    """None if the user may not list them; the data may contain some."""
    data_bytes: int
    remark: str = ""
    """Why the stream may be incomplete; empty if nothing says so."""
    removed_msgs: int = 0
    """At most as many messages of `state` are not in the data: they were removed meanwhile."""
    is_whole: bool = True
    """Whether everything is there that the stream still had to keep at the end of the backup."""


class StreamLeftOut(RequestFailed):
    """A stream is not in a backup, though the others can be."""


def consumers_text(backup: Written) -> str:
    """Return the number of consumers in a backup as text."""
    if backup.consumers_count is None:
        return f"consumers unknown: no permission to CONSUMER.LIST.{backup.stream}"
    return counted(backup.consumers_count, "consumer")


def incomplete_texts(backups: Sequence[Written], left_out: Sequence[str]) -> list[str]:
    """Return what is missing in backups, a clause each; empty if nothing is."""
    unfinished = [f"{backup.stream}: {backup.remark}" for backup in backups if not backup.is_whole]
    return [*unfinished, *left_out]


async def back_up_stream(
    client: Client, stream: str, target: Path, pace: Pace, progress: OnProgress, *, consumers: bool
) -> Written:
    """Write a stream into a folder that does not exist yet.

    Raises BackupError and the request errors; then there is no folder.
    """
    with new_folder(target) as folder:
        return await _write(client, stream, folder, pace, progress, consumers=consumers)


async def back_up_account(
    client: Client,
    target: Path,
    pace: Pace,
    progress: OnProgress,
    left_out: list[str],
    *,
    consumers: bool,
) -> Sequence[Written]:
    """Write every stream of the account into a folder; raises what `back_up_stream` raises.

    A stream that is deleted or recreated meanwhile is left out, and so is a stream in memory that
    the server cannot back up: the reason is added to `left_out`, and written into the folder.
    """
    names, total_count = await _names(client)
    if len(names) < total_count:
        left_out.append(f"the server counts {total_count:,} streams and names {len(names):,}")
    created = {name: await _created(client, name) for name in names}
    with new_folder(target) as folder:
        backups = []
        for name in names:
            stream_folder = folder / file_name(name)
            stream_folder.mkdir(mode=0o700)
            try:
                backups.append(
                    await _write(
                        client, name, stream_folder, pace, progress, consumers=consumers,
                        created=created[name],
                    )
                )  # fmt: skip
            except (NotFound, StreamLeftOut) as error:
                for entry in stream_folder.iterdir():
                    entry.unlink()
                stream_folder.rmdir()
                deleted_text = f"stream {name} was deleted during the backup"
                left_out.append(deleted_text if isinstance(error, NotFound) else str(error))
        write_json(
            folder / ABOUT_FILE,
            {
                **_made(client),
                "streams": [backup.stream for backup in backups],
                "left_out": left_out,
            },
        )
        return backups


async def _created(client: Client, stream: str) -> str | None:
    """Return when a stream was created, as the server writes it; None when it is deleted."""
    try:
        created: str = json.loads(await client.request(f"STREAM.INFO.{stream}"))["created"]
    except NotFound:
        return None
    return created


async def _write(
    client: Client, stream: str, folder: Path, pace: Pace, progress: OnProgress, *,
    consumers: bool, created: str | None = None,
) -> Written:  # fmt: skip
    """Write a stream into a folder; `created` is the creation time of the stream that is meant."""
    listed, left_out = await _consumers(client, stream) if consumers else ([], [])
    info = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    whole_bytes = int(info["state"]["bytes"])
    try:
        with (folder / DATA_FILE).open("wb") as file:
            snapshot = await take(
                client, stream, file, pace, lambda size: progress(stream, size, whole_bytes),
                consumers=consumers,
            )  # fmt: skip
    except RequestFailed as error:
        if error.err_code == _SNAPSHOT_FAILED and info["config"].get("storage") == "memory":
            raise StreamLeftOut(
                f"stream {stream} is in memory, and this server cannot back up such a stream",
                code=error.code, err_code=error.err_code,
            ) from error  # fmt: skip
        raise
    check_description(snapshot.answer, f"the reply to the snapshot of {stream}")
    sent_name = snapshot.answer["config"]["name"]
    if sent_name != stream:
        raise RequestFailed(
            f"the server sent a snapshot of {clean_line(sent_name)!r} instead of {stream!r}"
        )
    check_data(folder / DATA_FILE, f"the snapshot of {stream}")
    removed_msgs, why, is_whole = await _removed(
        client, stream, created or info["created"], snapshot.answer
    )
    if is_in(client.link.server_version, LEAVES_OUT_CONSUMERS):
        left_out += [row["name"] for row in listed or () if not _is_in_data(row, info)]
    consumers_kept = None
    if listed is not None:
        consumers_kept = [{key: row.get(key) for key in _KEPT_FIELDS} for row in listed]
    description: dict[str, Any] = {
        **_made(client),
        "stream": stream,
        "created": info["created"],
        "files": {
            CONFIG_FILE: {"sha256": write_json(folder / CONFIG_FILE, snapshot.answer)},
            DATA_FILE: {"sha256": snapshot.sha256, "bytes": snapshot.data_bytes},
        },
        "consumers": consumers_kept,
        "removed_msgs": removed_msgs,
        "left_out_consumers": left_out,
        "is_whole": is_whole and not left_out,
    }
    write_json(folder / ABOUT_FILE, description)
    count = None if consumers_kept is None else len(consumers_kept)
    unfinished_text = unfinished_restore(snapshot.answer["config"])
    remarks = [f"stream {stream} was {unfinished_text}"] if unfinished_text else []
    if removed_msgs:
        remarks.append(f"{removed_text(removed_msgs)} ({why})")
    if left_out:
        remarks.append(left_out_text(left_out))
    return Written(
        stream, snapshot.answer["state"], count, snapshot.data_bytes, "; ".join(remarks),
        removed_msgs, is_whole and not left_out,
    )  # fmt: skip


def _is_in_data(consumer: Config, stream: Config) -> bool:
    """Return whether the snapshot of a stream before 2.15 contains a consumer: its leader has it
    on the disk.
    """
    in_memory = is_on(consumer["config"], "mem_storage")
    if in_memory and text_at(stream, "config.storage") == "file":
        return False
    leader = text_at(stream, "cluster.leader")
    cluster = consumer.get("cluster") or {}
    servers = [cluster.get("leader"), *(peer["name"] for peer in cluster.get("replicas") or ())]
    return not leader or not cluster or leader in servers


async def _removed(
    client: Client, stream: str, created: str, snapshot: Config
) -> tuple[int, str, bool]:
    """Return how many messages of a snapshot's state were removed from the stream since, why, and
    whether the stream itself had nothing of them to keep: consumers acked them, or its limits took
    the oldest.

    A server sends a message as it is stored at that moment: what was removed while the snapshot
    was sent is not in it. Raises StreamLeftOut for a recreated stream, and the request errors.
    """
    before, config = snapshot["state"], snapshot["config"]
    first_seq, last_seq, before_msgs = before["first_seq"], before["last_seq"], before["messages"]
    try:
        info = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    except NotFound:
        return before_msgs, "the stream was deleted", not before_msgs
    if info["created"] != created:
        raise StreamLeftOut(f"stream {stream} was deleted and recreated during the backup")
    state = info["state"]
    if state["messages"] - (state["last_seq"] - last_seq) >= before_msgs:
        return 0, "", True
    if state.get("num_deleted"):
        body = {"deleted_details": True}
        state = json.loads(await client.request(f"STREAM.INFO.{stream}", body))["state"]
    holes_count = last_seq - first_seq + 1 - before_msgs
    removed_msgs = missing_count([(first_seq, last_seq)], state) - holes_count
    if text_at(config, "retention") in CONSUMED and state["consumer_count"]:
        return removed_msgs, "acks of its consumers, or a purge", True
    limits = limits_that_took(config, before, state, server_us(info))
    return removed_msgs, limits or "limits, or somebody", not removed_msgs or bool(limits)


def limits_that_took(config: Config, before: Config, state: Config, now_us: int) -> str:
    """Return the limits that explain that the oldest messages of a stream are gone; empty if none
    does.

    `before` and `state` are its states then and at `now_us`, UTC. A limit per subject, a roll-up
    and a TTL do not count: a newer message may have taken the place of one that is gone.
    """
    is_oldest = number_at(state, "num_deleted") <= number_at(before, "num_deleted")
    if not is_oldest or number_at(config, "max_msgs_per_subject") > 0:
        return ""
    # What is gone is older than the oldest that is left; without any, than the newest of then.
    left_ts = state["first_ts"] if state["messages"] else before["last_ts"]
    age_s = (now_us - time_us(left_ts)) / 1e6 + _EXPIRES_SOON_S
    counted_config = config | {"allow_rollup_hdrs": False, "allow_msg_ttl": False}
    if number_at(state, "last_seq") <= number_at(before, "last_seq"):
        # Only a new message makes a stream remove old ones for a number or for bytes.
        counted_config |= {"max_msgs": -1, "max_bytes": -1}
    largest_bytes = max(number_at(config, "max_msg_size"), 0) or _LARGEST_BYTES
    if number_at(state, "bytes") + largest_bytes < number_at(config, "max_bytes"):
        counted_config["max_bytes"] = -1
    return ", ".join(reached_limits(counted_config, state, age_s))


def _made(client: Client) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "natstui": __version__,
        "made": moment_text(time.time_ns() // 1000) + "Z",
        "server": client.link.server_name,
        "account": client.link.account,
    }


_KEPT_FIELDS = ("name", "config", "delivered", "ack_floor", "num_pending")


async def _consumers(client: Client, stream: str) -> tuple[list[Config] | None, list[str]]:
    """Return the durable consumers with their positions, and the names of those that do not reply;
    None and no name if the user may not list them.
    """
    try:
        pages = [json.loads(page) async for page in client.pages(f"CONSUMER.LIST.{stream}")]
    except PermissionDenied:
        return None, []
    silent = {
        str(name)
        for page in pages
        for name in (*(page.get("missing") or ()), *(page.get("offline") or ()))
    }
    rows = [
        row
        for page in pages
        for row in page.get("consumers") or ()
        if row and row["name"] not in ("", *silent) and row["config"].get("durable_name")
    ]
    return rows, sorted(silent)


async def _names(client: Client) -> tuple[list[str], int]:
    """Return the sorted names of all streams, and how many there are as counted by the server."""
    names, total_count = set[str](), 0
    async for data in client.pages("STREAM.NAMES"):
        page = json.loads(data)
        names |= set(page.get("streams") or ())
        total_count = max(total_count, page.get("total") or 0)
    return sorted(names), total_count
