"""Reads the info of an object in an object store, under any encoding of its name."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from natstui.decoding import decoder_of
from natstui.errors import NotFound, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import NO_MESSAGE_CODE
from natstui.jetstream.connection.subject_counts import read_all_subject_counts
from natstui.jetstream.connection.times import time_us
from natstui.model.assets.buckets import OBJECTS, object_info_subject
from natstui.model.assets.subjects import is_literal


class ObjectInfo(Struct, frozen=True):
    """The newest info message of an object: its subject, sequence and content."""

    subject: str
    seq: int
    stored_at_us: int
    content: bytes


async def read_object_info(client: Client, bucket: str, name: str) -> ObjectInfo:
    """Return the newest info of an object, even if its name is encoded in another way.

    Raises NotFound without a store (err_code 10059) or object (10037), and the request errors.
    """
    try:
        return await _read_last(client, bucket, object_info_subject(bucket, name))
    except NotFound as error:
        if error.err_code != NO_MESSAGE_CODE:
            text = f"there is no object store {bucket}"
            raise NotFound(text, err_code=error.err_code) from error
    async for subject in _unusual_subjects(client, bucket):
        info = await _read_last(client, bucket, subject)
        if _object_name_in(info.content) == name:
            return info
    raise NotFound(f"{bucket} has no object {name}", err_code=NO_MESSAGE_CODE)


async def _read_last(client: Client, bucket: str, subject: str) -> ObjectInfo:
    verb = f"STREAM.MSG.GET.{OBJECTS}{bucket}"
    message = json.loads(await client.request(verb, {"last_by_subj": subject}))["message"]
    try:
        content = base64.b64decode(message.get("data") or "")
    except binascii.Error as error:
        raise RequestFailed(
            f"the metadata of an object in {bucket} cannot be read: {error}"
        ) from error
    return ObjectInfo(subject, int(message["seq"]), time_us(message["time"]), content)


async def _unusual_subjects(client: Client, bucket: str) -> AsyncIterator[str]:
    """Yield the subjects of infos with another encoding than that of natstui, Go and Python."""
    prefix = object_info_subject(bucket, "")
    async for msgs_by_subject in read_all_subject_counts(
        client, f"{OBJECTS}{bucket}", f"{prefix}>"
    ):
        for subject in msgs_by_subject:
            token = subject.removeprefix(prefix)
            if not is_literal(subject) or subject == token:
                continue
            try:
                name = base64.urlsafe_b64decode(token).decode()
            except ValueError:
                yield subject
                continue
            if object_info_subject(bucket, name) != subject:
                yield subject


class _ObjectNameField(msgspec.Struct):
    name: str = ""


def _object_name_in(content: bytes) -> str | None:
    try:
        return decoder_of(_ObjectNameField).decode(content).name
    except (msgspec.DecodeError, RecursionError):
        return None
