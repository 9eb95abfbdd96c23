"""The catalogue of findings about names without a row. Of natstui it imports only `kind`."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

_UPGRADE_ADVICE = (
    "run the server version that created it, or a newer one; or start that version once more "
    "and remove the setting that the reason names"
)
STREAM_UNSUPPORTED = Kind(
    "NT-S09", "stream", "critical", "stream unsupported",
    "the server refuses to run it because of an unknown setting or API level",
    "the reason shown here, and whether the server was downgraded (`nats server list`)",
    _UPGRADE_ADVICE,
    "error 10194 of STREAM.INFO",
)  # fmt: skip
CONSUMER_UNSUPPORTED = Kind(
    "NT-C14", "consumer", "critical", "consumer unsupported",
    "the server refuses to run it because of an unknown setting or API level",
    "the reason shown here, and whether the server was downgraded (`nats server list`)",
    _UPGRADE_ADVICE,
    "error 10195 of CONSUMER.INFO",
)  # fmt: skip
CONSUMERS_UNLISTED = Kind(
    "NT-S10", "stream", "critical", "consumers away",
    "some consumers of the stream cannot be listed: their servers do not reply",
    "which servers are offline (`natstui servers`)",
    "start the servers that are offline; `nats consumer ls STREAM` shows the others",
    "", 10.0, 0.0,
)  # fmt: skip

ROWLESS_KINDS = (STREAM_UNSUPPORTED, CONSUMER_UNSUPPORTED, CONSUMERS_UNLISTED)
"""The kinds of findings about names without a row."""
