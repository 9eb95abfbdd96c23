"""Backups: streams with their configuration, consumers and data, written into a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from natstui import __version__
from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.files import file_name
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Config
from natstui.jetstream.managing.backup_folder import (
    ABOUT_FILE,
    CONFIG_FILE,
    DATA_FILE,
    FORMAT,
    check_data,
    check_description,
    new_folder,
    write_json,
)
from natstui.jetstream.managing.snapshot import Pace, take
from natstui.units import counted, moment_text

_SNAPSHOT_FAILED = 10064
OnProgress = Callable[[str, int, int], None]
"""Called with the stream, the bytes written so far and those the stream takes on the server."""


@dataclass(frozen=True, slots=True)
class Written:
    """The backup of one stream as it was written."""

    stream: str
    state: Config
    consumers_count: int | None
    """None when the user may not list them; the data may hold some."""
    data_bytes: int


class MemoryStreamRefused(RequestFailed):
    """The server cannot back up a stream that is stored in memory."""


def consumers_text(written: Written) -> str:
    """Return how many consumers a backup has in words."""
    if written.consumers_count is None:
        return f"consumers unknown: no permission to CONSUMER.LIST.{written.stream}"
    return counted(written.consumers_count, "consumer")


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

    A stream that is deleted meanwhile is left out, and so is a stream in memory that the server
    cannot back up: the reason is added to `left_out`, and written into the folder.
    """
    names = sorted([name async for name in _names(client, "STREAM.NAMES", "streams")])
    with new_folder(target) as folder:
        written = []
        for name in names:
            own = folder / file_name(name)
            own.mkdir(mode=0o700)
            try:
                written.append(
                    await _write(client, name, own, pace, progress, consumers=consumers)
                )
            except (NotFound, MemoryStreamRefused) as error:
                for left in own.iterdir():
                    left.unlink()
                own.rmdir()
                if isinstance(error, MemoryStreamRefused):
                    left_out.append(str(error))
        write_json(
            folder / ABOUT_FILE,
            {
                **_made(client),
                "streams": [backed_up.stream for backed_up in written],
                "left_out": left_out,
            },
        )
        return written


async def _write(
    client: Client, stream: str, folder: Path, pace: Pace, progress: OnProgress, *, consumers: bool
) -> Written:
    kept = await _consumers(client, stream) if consumers else []
    info = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    whole_bytes = int(info["state"]["bytes"])
    try:
        with (folder / DATA_FILE).open("wb") as file:
            taken = await take(
                client, stream, file, pace, lambda size: progress(stream, size, whole_bytes),
                consumers=consumers,
            )  # fmt: skip
    except RequestFailed as error:
        if error.err_code == _SNAPSHOT_FAILED and info["config"].get("storage") == "memory":
            raise MemoryStreamRefused(
                f"stream {stream} is in memory, and this server cannot back up such a stream",
                code=error.code, err_code=error.err_code,
            ) from error  # fmt: skip
        raise
    check_description(taken.answer, f"the reply to the snapshot of {stream}")
    check_data(folder / DATA_FILE, f"the snapshot of {stream}")
    about: dict[str, Any] = {
        **_made(client),
        "stream": stream,
        "created": info["created"],
        "files": {
            CONFIG_FILE: {"sha256": write_json(folder / CONFIG_FILE, taken.answer)},
            DATA_FILE: {"sha256": taken.sha256, "bytes": taken.data_bytes},
        },
        "consumers": kept,
    }
    write_json(folder / ABOUT_FILE, about)
    count = None if kept is None else len(kept)
    return Written(stream, taken.answer["state"], count, taken.data_bytes)


def _made(client: Client) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "natstui": __version__,
        "made": moment_text(time.time_ns() // 1000) + "Z",
        "server": client.link.server_name,
        "account": client.link.account,
    }


async def _consumers(client: Client, stream: str) -> list[dict[str, Any]] | None:
    """Return the durable consumers and how far they are; None when the user may not ask."""
    try:
        pages = [json.loads(page) async for page in client.pages(f"CONSUMER.LIST.{stream}")]
    except PermissionDenied:
        return None
    return [
        {key: row.get(key) for key in ("name", "config", "delivered", "ack_floor", "num_pending")}
        for page in pages
        for row in page.get("consumers") or ()
        if row["config"].get("durable_name")
    ]


async def _names(client: Client, verb: str, of: str) -> Any:
    async for page in client.pages(verb):
        for name in json.loads(page).get(of) or ():
            yield name
