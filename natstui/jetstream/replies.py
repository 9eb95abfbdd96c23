"""What a reply of the JetStream API says: an error of ours, or a page of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from natstui.clean import clean_line
from natstui.errors import Conflict, JetStreamUnavailable, NotFound, RequestFailed

T = TypeVar("T")

_NO_JETSTREAM = {10008, 10039, 10074, 10076}
_NOT_FOUND = {10014, 10037, 10059, 10149}
_CONFLICT = {10013, 10058, 10065, 10071, 10105, 10148, 10164}
# `type` and `error` come first in every reply, so a big one need not be searched.
_LOOK_BYTES = 300


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int | None = None
    description: str = ""


class _Reply(msgspec.Struct):
    error: _Error | None = None


class Page(msgspec.Struct):
    """Where a page of a list lies in the whole (`total`, `offset`, `limit`)."""

    total: int = 0
    offset: int = 0
    limit: int = 0


def check_reply(verb: str, data: bytes) -> None:
    """Raise what an API reply complains about; return when it does not.

    Errors: NotFound, Conflict, JetStreamUnavailable, else RequestFailed, with both codes.
    """
    if b'"error"' not in data[:_LOOK_BYTES]:
        return
    error = read(verb, data, _Reply).error
    if error is None:
        return
    number = f" (error {error.err_code})" if error.err_code is not None else f" ({error.code})"
    sentence = f"{verb}: {clean_line(error.description)}{number}"
    raise _kind(error)(sentence, code=error.code, err_code=error.err_code)


def _kind(error: _Error) -> type[RequestFailed]:
    if error.err_code in _NO_JETSTREAM:
        return JetStreamUnavailable
    if error.err_code in _CONFLICT:
        return Conflict
    if error.err_code in _NOT_FOUND or error.code == 404:
        return NotFound
    return RequestFailed


def read(verb: str, data: bytes, kind: type[T]) -> T:
    """Return what an answer says; raises RequestFailed when it is not what it should be."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        reason = clean_line(str(error))
        raise RequestFailed(f"{verb}: the server's answer is not understood ({reason})") from error


def read_page(verb: str, data: bytes) -> Page:
    """Return where this page of a list lies."""
    return read(verb, data, Page)


def no_responders(verb: str, prefix: str, server_info: Mapping[str, object]) -> RequestFailed:
    """Return why nobody answers a request of the API, which the server says at once."""
    if verb.startswith("DIRECT.GET."):
        stream = clean_line(verb.split(".")[2])
        return NotFound(f"no stream {stream!r}, or it does not allow direct reads", code=503)
    if prefix != "$JS.API":
        reason = f'nothing answers at "{prefix}": is the domain or API prefix right?'
    elif not server_info.get("jetstream"):
        name = clean_line(str(server_info.get("server_name", "")))
        reason = f"the server {name!r} runs without JetStream"
    else:
        reason = f'nothing answers at "{prefix}"'
    return JetStreamUnavailable(reason, code=503)
