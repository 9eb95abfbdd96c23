"""What the keys of a table of keys do to the one under the cursor."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.records.stores import ChangeKey, KeyRow
from natstui.tui.frame.live import LiveScreen
from natstui.tui.stores.changing import start_change
from natstui.tui.stores.put import PutScreen


def change_key(
    screen: LiveScreen, bucket: str, row: KeyRow, what: str, changed: Callable[[], None]
) -> None:
    """Edit, delete or purge a key whose newest revision is the one that is shown.

    `changed` is called when it is done.
    """
    if what == "edit-key":
        screen.app.push_screen(PutScreen(bucket, row.key))
    elif what == "delete_key":
        change = ChangeKey(0, "delete_key", bucket, row.key, if_revision_seq=row.revision_seq)
        does = "a marker says it is deleted; what the bucket keeps before it stays"
        start_change(screen, change, does, changed)
    elif what == "purge_key":
        change = ChangeKey(0, "purge_key", bucket, row.key, if_revision_seq=row.revision_seq)
        start_change(screen, change, "all its revisions are removed for good", changed)
