"""Options of a stream: how messages lie on the disk, and who may read and remove them."""

from __future__ import annotations

from natstui.model.config_field import Field

STORAGE = (
    Field(
        "compression", "Compression", "choice", "Storage",
        "s2 makes files smaller and costs some processor time.",
        default="none", choices=("none", "s2"), flag="compression",
    ),
    Field(
        "persist_mode", "Persist mode", "choice", "Storage",
        "async answers before the message is on the disk: faster, and a crash may lose some.",
        default="default", choices=("default", "async"), api_level_count=2,
        flag="persist-mode", flag_add_only=True,
        fixed="the persist mode of a stream cannot change",
    ),
    Field(
        "first_seq", "First sequence", "count", "Storage",
        "The sequence of the first message.", default=0,
        flag="first-sequence", flag_add_only=True,
        fixed="the first sequence counts only when the stream is made",
    ),
)  # fmt: skip

ACCESS = (
    Field(
        "allow_direct", "Direct get", "switch", "Access",
        "Every replica answers reads of single messages: faster, and perhaps a moment behind.",
        default=False, flag="allow-direct",
    ),
    Field(
        "deny_delete", "Deny delete", "switch", "Access",
        "Single messages cannot be deleted; this cannot be taken back.",
        default=False, flag="deny-delete",
    ),
    Field(
        "deny_purge", "Deny purge", "switch", "Access",
        "The stream cannot be purged; this cannot be taken back.",
        default=False, flag="deny-purge",
    ),
    Field(
        "sealed", "Sealed", "switch", "Access",
        "Nothing can be added or removed any more; this cannot be taken back.",
        default=False,
    ),
)  # fmt: skip
