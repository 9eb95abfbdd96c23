"""The complete catalogue: every kind of finding by its code."""

from __future__ import annotations

from natstui.model.findings.catalogue.account import ACCOUNT_KINDS
from natstui.model.findings.catalogue.consumers import CONSUMER_KINDS
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.risky_settings import SETTING_KINDS
from natstui.model.findings.catalogue.rowless import ROWLESS_KINDS
from natstui.model.findings.catalogue.servers import SERVER_KINDS
from natstui.model.findings.catalogue.streams import STREAM_KINDS

KINDS: dict[str, Kind] = {
    kind.code: kind
    for kind in (
        *CONSUMER_KINDS,
        *STREAM_KINDS,
        *SETTING_KINDS,
        *ACCOUNT_KINDS,
        *ROWLESS_KINDS,
        *SERVER_KINDS,
    )
}
"""Code → kind of finding, for all kinds."""

SUCCESSOR_BY_RETIRED_CODE: dict[str, str] = {
    "NT-C24": "NT-C26",
    "NT-C28": "NT-C05",
    "NT-C34": "NT-C41",
    "NT-K29": "NT-S36",
}
"""Retired code → its successor; rules, silences and old recordings may contain retired codes."""


def successor_of(code: str) -> str:
    """Return the successor of a retired code; any other code unchanged."""
    return SUCCESSOR_BY_RETIRED_CODE.get(code, code)
