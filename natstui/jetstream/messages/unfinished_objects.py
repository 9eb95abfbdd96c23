"""Finds chunks in an object store that belong to no object: those of running or killed uploads."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence

from msgspec import Struct

from natstui.errors import NotFound, PermissionDenied
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.subject_counts import read_all_subject_counts
from natstui.jetstream.connection.times import time_us
from natstui.model.assets.buckets import OBJECTS, chunk_subject
from natstui.model.assets.subjects import is_token
from natstui.model.findings.thresholds import OBJECT_UPLOAD_ENDED_AFTER_S
from natstui.units import bytes_text, counted, was_or_were

_MAX_MEASURED_UPLOADS = 20
"""Maximum number of uploads whose size and age are read."""


class UnfinishedObject(Struct, frozen=True):
    """The chunks of one upload, with an id that no object has."""

    subject: str
    chunks_count: int
    size_bytes: int | None
    """Size of all chunks, assuming that all but the last are as large as the first; None if
    not read."""
    stored_at_us: int | None
    """Time at which the last chunk was stored, in UTC µs; None if not read."""

    def may_be_running(self, now_us: int) -> bool | None:
        """Return whether the upload may still be running; None when its age is unknown."""
        if self.stored_at_us is None:
            return None
        return now_us - self.stored_at_us < OBJECT_UPLOAD_ENDED_AFTER_S * 1e6


async def count_chunks(client: Client, bucket: str) -> dict[str, int]:
    """Return the number of chunks by subject; an empty dict if the user may not read it.

    Call this before the objects are read: those then include uploads that end meanwhile.
    """
    chunks_count_by_subject = dict[str, int]()
    try:
        count_pages = read_all_subject_counts(
            client, f"{OBJECTS}{bucket}", chunk_subject(bucket, "*")
        )
        async for page_counts in count_pages:
            chunks_count_by_subject |= page_counts
    except PermissionDenied:
        return {}
    return chunks_count_by_subject


async def find_unfinished_objects(
    client: Client, bucket: str, chunks_count_by_subject: dict[str, int], nuids: Iterable[str]
) -> list[UnfinishedObject]:
    """Return the uploads whose chunks have an id that is not among `nuids`.

    `chunks_count_by_subject` is the result of `count_chunks`, and `nuids` are the ids of all
    objects, including deleted ones.
    """
    subjects_of_objects = {chunk_subject(bucket, nuid) for nuid in nuids}
    prefix = chunk_subject(bucket, "")
    subjects_without_object = [
        subject
        for subject in sorted(chunks_count_by_subject.keys() - subjects_of_objects)
        if subject.startswith(prefix) and is_token(subject.removeprefix(prefix))
    ]
    measured_uploads = [
        await _measure_upload(client, bucket, subject, chunks_count_by_subject[subject])
        for subject in subjects_without_object[:_MAX_MEASURED_UPLOADS]
    ]
    unmeasured_uploads = [
        UnfinishedObject(subject, chunks_count_by_subject[subject], None, None)
        for subject in subjects_without_object[_MAX_MEASURED_UPLOADS:]
    ]
    return [upload for upload in measured_uploads if upload is not None] + unmeasured_uploads


async def _measure_upload(
    client: Client, bucket: str, subject: str, chunks_count: int
) -> UnfinishedObject | None:
    """Return the upload with the chunks of a subject; None if these were deleted meanwhile."""
    verb = f"STREAM.MSG.GET.{OBJECTS}{bucket}"
    try:
        first_chunk, last_chunk = [
            json.loads(await client.request(verb, body))["message"]
            for body in ({"seq": 1, "next_by_subj": subject}, {"last_by_subj": subject})
        ]
    except NotFound:
        return None
    except PermissionDenied:
        return UnfinishedObject(subject, chunks_count, None, None)
    sizes_bytes = [_decoded_bytes(chunk.get("data") or "") for chunk in (first_chunk, last_chunk)]
    size_bytes = sizes_bytes[0] * (chunks_count - 1) + sizes_bytes[1]
    return UnfinishedObject(subject, chunks_count, size_bytes, time_us(last_chunk["time"]))


def _decoded_bytes(data_base64: str) -> int:
    return len(data_base64) // 4 * 3 - data_base64[-2:].count("=")


def unfinished_text(unfinished: Sequence[UnfinishedObject], now_us: int) -> str:
    """Return the uploads as text, such as `12 chunks (1.5 MiB) of 2 objects that were never
    finished`.
    """
    parts = []
    for may_be_running, state in (
        (False, "that {} never finished"),
        (True, "that {} not finished: an upload runs, or ended less than an hour ago"),
        (None, "that {} not finished, and whose age is unknown"),
    ):
        uploads = [
            upload for upload in unfinished if upload.may_be_running(now_us) is may_be_running
        ]
        if uploads:
            objects = "an object" if len(uploads) == 1 else f"{len(uploads):,} objects"
            verb = was_or_were(len(uploads))
            parts.append(f"{_size_text(uploads)} of {objects} {state.format(verb)}")
    return "; ".join(parts)


def _size_text(uploads: Sequence[UnfinishedObject]) -> str:
    text = counted(sum(upload.chunks_count for upload in uploads), "chunk")
    sizes_bytes = [upload.size_bytes for upload in uploads if upload.size_bytes is not None]
    if not sizes_bytes:
        return text
    prefix = "more than " if len(sizes_bytes) < len(uploads) else ""
    return f"{text} ({prefix}{bytes_text(sum(sizes_bytes))})"


def removal_command(bucket: str, upload: UnfinishedObject) -> str:
    """Return the command that deletes the chunks of one upload, and nothing else."""
    arguments = ["natstui", "stream", "purge", f"{OBJECTS}{bucket}", "--subject", upload.subject]
    return shlex.join(arguments)
