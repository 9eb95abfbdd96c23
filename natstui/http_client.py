"""One HTTP request within a deadline: for webhooks and the servers' monitoring ports."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from natstui.clean import clean_line
from natstui.clock import steady_us
from natstui.errors import RequestFailed

if TYPE_CHECKING:
    import aiohttp

_REDIRECT_STATUSES = range(300, 400)


class HttpReply(Struct, frozen=True):
    """A reply with a status of 2xx."""

    body: bytes
    began_mono_us: int
    """When its headers were received, on the steady clock in µs."""


async def http_request(
    method: str,
    address: str,
    deadline_s: float,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    uses_environment_proxy: bool = False,
    max_bytes: int = 0,
) -> HttpReply:
    """Return a reply with a status of 2xx; with `max_bytes` of 0 its body is not read.

    `deadline_s` is the limit for the complete request, from name resolution to the last byte.
    `uses_environment_proxy`: the proxy that environment variables name is used, if any. Raises
    RequestFailed for any other status, redirects included, for a body above `max_bytes`, and when
    no complete reply comes in time.
    """
    # Only here: it takes 0.2 s that no other command needs.
    import aiohttp
    from yarl import URL

    try:
        async with (
            asyncio.timeout(deadline_s),
            aiohttp.ClientSession(
                trust_env=uses_environment_proxy,
                connector=aiohttp.TCPConnector(ssl=tls or True, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                # What is packed could grow beyond all measure.
                auto_decompress=False,
                headers={"User-Agent": "natstui", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.request(
                method,
                # An address may be signed, so its bytes stay as they are.
                URL(address, encoded=address.isascii()),
                data=body,
                headers=headers,
                allow_redirects=False,
            ) as reply,
        ):
            began_us = steady_us()
            if reply.status in _REDIRECT_STATUSES:
                raise RequestFailed(
                    f"the reply is {reply.status}, a redirect, which is not followed",
                    code=reply.status,
                )
            if not 200 <= reply.status < 300:
                raise RequestFailed(f"the reply is {reply.status}", code=reply.status)
            return HttpReply(await _read_body(reply, max_bytes) if max_bytes else b"", began_us)
    except TimeoutError as error:
        raise RequestFailed(f"no complete reply within {deadline_s:g} s") from error
    except aiohttp.ClientConnectorError as error:
        raise RequestFailed(f"cannot connect: {_error_reason(error.os_error)}") from error
    # The text of these errors has the complete address, which may contain secrets.
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise RequestFailed("it is not an address of HTTP") from error
    # The message of the parser differs by version, and between C and Python.
    except aiohttp.ClientResponseError as error:
        raise RequestFailed("the reply is not valid HTTP") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise RequestFailed(f"no valid reply: {_error_reason(error)}") from error


async def _read_body(reply: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    data = bytearray()
    async for part in reply.content.iter_any():
        data += part
        if len(data) > max_bytes:
            raise RequestFailed(f"the reply is more than {max_bytes // 1024 // 1024} MiB")
    return bytes(data)


def _error_reason(error: Exception) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return clean_line(strerror or str(error)) or type(error).__name__
