"""By which names a request may call an HTTP server of ours."""

from __future__ import annotations

import ipaddress
import re

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?")
"""An address of IPv6, or a name or address of IPv4, and perhaps a port."""


def is_own_host(header: str | None, named: str) -> bool:
    """Return whether a Host header is an IP address, localhost, or the host `named` by the user.

    Any other name may belong to a foreign page that leads here to read our replies.
    """
    match = _HOST.fullmatch(header or "")
    if match is None:
        return False
    host = (match[1] or match[2]).lower()
    return host in ("localhost", named.lower()) or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
