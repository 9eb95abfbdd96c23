"""Checks the Host header of requests to the HTTP servers of natstui."""

from __future__ import annotations

import ipaddress
import re

_HOST_HEADER_PATTERN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?")
"""An address of IPv6, or a name or address of IPv4, and perhaps a port."""


def is_own_host(header: str | None, configured_host: str) -> bool:
    """Return whether a Host header is an IP address, localhost, or `configured_host`.

    Any other name may be that of a foreign web page that reads the replies (DNS rebinding).
    """
    match = _HOST_HEADER_PATTERN.fullmatch(header or "")
    if match is None:
        return False
    host = (match[1] or match[2]).lower()
    return host in ("localhost", configured_host.lower()) or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
