"""Decodes replies of the JetStream API: their errors, and the pages of lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, TypeVar

import msgspec

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.errors import (
    Conflict,
    JetStreamUnavailable,
    NotFound,
    ReplyUnreadable,
    RequestFailed,
)
from natstui.parsing import describe_parse_error

T = TypeVar("T")

MAX_INT64 = 2**63 - 1
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT64)]
"""A number that a recording and its readers can store."""
Limit = Annotated[int, msgspec.Meta(ge=-1, le=MAX_INT64)]
"""A count, where -1 means unlimited."""

_MAX_UINT64 = 2**64 - 1
_LONG_NUMBER_PATTERN = re.compile(rb"[0-9]{20}")
_DECODING_ERRORS = (msgspec.DecodeError, ValueError, KeyError, OverflowError, RecursionError)

_NO_JETSTREAM_CODES = {10008, 10039, 10074, 10076}
NO_MESSAGE_CODE = 10037
"""Error code: there is no such message in a stream."""
_NOT_FOUND_CODES = {10014, NO_MESSAGE_CODE, 10059, 10149}
_CONFLICT_CODES = {10013, 10058, 10065, 10071, 10105, 10148, 10164}
_LOWER_MAX_BYTES_ADVICE = (
    "max bytes counts as used storage, and the account or server has less left: lower max bytes"
)
_ADVICE_BY_ERR_CODE = {
    10002: _LOWER_MAX_BYTES_ADVICE,
    10028: _LOWER_MAX_BYTES_ADVICE,
    10047: _LOWER_MAX_BYTES_ADVICE,
}
# `type` and `error` come first in every reply, so a big one need not be searched.
_ERROR_SEARCH_BYTES = 300


class _ApiError(msgspec.Struct):
    code: int = 0
    err_code: int | None = None
    description: str = ""


class _ErrorReply(msgspec.Struct):
    error: _ApiError | None = None


class _ConfigName(msgspec.Struct):
    name: str = ""


class _ListRow(msgspec.Struct):
    name: str = ""
    config: _ConfigName | None = None


class Page(msgspec.Struct):
    """A page of a list: its position (`total`, `offset`, `limit`) and rows."""

    total: int = 0
    offset: int = 0
    limit: int = 0
    streams: list[_ListRow | str] | None = None
    consumers: list[_ListRow | str] | None = None

    @property
    def names(self) -> Iterator[str]:
        """Yield the names of the listed streams or consumers."""
        for row in (*(self.streams or ()), *(self.consumers or ())):
            if isinstance(row, str):
                yield row
            else:
                # A row of a stream has its name in its configuration.
                yield row.name or (row.config.name if row.config else "")


def check_reply(verb: str, data: bytes) -> None:
    """Raise the error in an API reply, if it has one.

    It is NotFound, Conflict, JetStreamUnavailable, else RequestFailed, with both codes. Raises
    ReplyUnreadable for an invalid reply.
    """
    if _LONG_NUMBER_PATTERN.search(data):
        _check_numbers(verb, data)
    if b'"error"' not in data[:_ERROR_SEARCH_BYTES]:
        return
    error = read(verb, data, _ErrorReply).error
    if error is None:
        return
    code_text = f" (error {error.err_code})" if error.err_code is not None else f" ({error.code})"
    sentence = f"{verb}: {clean_line(error.description)}{code_text}{_advice_text(error.err_code)}"
    raise _error_class(error)(sentence, code=error.code, err_code=error.err_code)


def _check_numbers(verb: str, data: bytes) -> None:
    """Raise ReplyUnreadable for a number above 64 bits, which would break sums and texts."""

    def parse_number(text: str) -> int:
        if abs(number := int(text)) > _MAX_UINT64:
            raise ValueError("a number has more than 64 bits")
        return number

    try:
        json.loads(data, parse_int=parse_number)
    except (ValueError, RecursionError) as error:
        message = clean_line(describe_parse_error(error))
        raise ReplyUnreadable(f"{verb}: the server's reply cannot be read ({message})") from error


def _advice_text(err_code: int | None) -> str:
    """Return a clause with advice for an error code; empty without advice."""
    advice = _ADVICE_BY_ERR_CODE.get(err_code or 0)
    return f": {advice}" if advice else ""


def _error_class(error: _ApiError) -> type[RequestFailed]:
    if error.err_code in _NO_JETSTREAM_CODES:
        return JetStreamUnavailable
    if error.err_code in _CONFLICT_CODES:
        return Conflict
    if error.err_code in _NOT_FOUND_CODES or error.code == 404:
        return NotFound
    return RequestFailed


def read(verb: str, data: bytes, reply_type: type[T]) -> T:
    """Return a decoded reply; raises ReplyUnreadable if it does not match `reply_type`."""
    try:
        return decoder_of(reply_type).decode(data)
    except _DECODING_ERRORS as error:
        message = clean_line(describe_parse_error(error))
        raise ReplyUnreadable(f"{verb}: the server's reply cannot be read ({message})") from error


_MAX_PAGES_WITHOUT_NEW_NAME = 16
"""Limit of successive pages without a new row; rows of nodes that are down are left out."""


_MAX_LISTED_NAMES = 1_000_000
"""Limit of a list's length: a longer one would fill the memory."""


class EndlessListCheck:
    """Detects an endless list by many successive pages without a new name."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._listed_names = set[str]()
        self._pages_without_new_name = 0

    def check(self, names: Iterable[str], total: int = 0) -> None:
        """Check the names of a page that is not the last; raises RequestFailed for an endless
        list.

        `total` is the number of rows that the server reports; more than a million raise
        RequestFailed too. It is 0 if the caller limits the number of rows itself.
        """
        if total > _MAX_LISTED_NAMES:
            limit_text = f"the server lists {total:,}, natstui reads at most {_MAX_LISTED_NAMES:,}"
            raise RequestFailed(f"{self._verb}: {limit_text}")
        previous_count = len(self._listed_names)
        self._listed_names.update(names)
        has_no_new_name = len(self._listed_names) == previous_count
        self._pages_without_new_name = self._pages_without_new_name + 1 if has_no_new_name else 0
        if self._pages_without_new_name >= _MAX_PAGES_WITHOUT_NEW_NAME:
            raise RequestFailed(f"{self._verb}: the server's list repeats itself and does not end")


def read_page(verb: str, data: bytes) -> Page:
    """Return the decoded page of a list; raises ReplyUnreadable."""
    return read(verb, data, Page)


def make_no_responders_error(
    verb: str, prefix: str, server_info: Mapping[str, object]
) -> RequestFailed:
    """Return the error for an API request without responders."""
    if verb.startswith("DIRECT.GET."):
        stream = clean_line(verb.split(".")[2])
        return NotFound(f"no stream {stream!r}, or it does not allow direct reads", code=503)
    if prefix != "$JS.API":
        reason = f'no reply at "{prefix}": is the domain or API prefix right?'
    elif not server_info.get("jetstream"):
        name = clean_line(str(server_info.get("server_name", "")))
        reason = f"the server {name!r} runs without JetStream"
    else:
        reason = f'no reply at "{prefix}"'
    return JetStreamUnavailable(reason, code=503)


class raise_unreadable:
    """Context that raises ReplyUnreadable, a RequestFailed, for a decoding error in its block.

    It is a class because a generator takes three times as long, and there is one per row.
    """

    __slots__ = ("_request_name",)

    def __init__(self, request_name: str) -> None:
        self._request_name = request_name

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise ReplyUnreadable instead of a decoding error."""
        if error is not None and isinstance(error, _DECODING_ERRORS):
            message = describe_parse_error(error)
            raise ReplyUnreadable(
                f"the server's reply to {self._request_name} cannot be read: {message}"
            ) from error
