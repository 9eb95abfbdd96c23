"""Every bucket and object store, live: they are streams by convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.tui.frame.action_keys import ADD_BUCKET, STREAM_ACTIONS, Target
from natstui.tui.frame.action_runner import Managing
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.messages import Open
from natstui.tui.frame.selection import acted_on, meant_rows, open_of_row, watch_shown
from natstui.tui.frame.systems import joined, own_key
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.table.view import RowSelected, VisibleChanged
from natstui.tui.stores.bucket_form import BucketForm
from natstui.tui.stores.cells import BUCKET_COLUMNS, BucketView

_KEPT = {"edit-stream", "messages", "delete_stream", "undo"}
"""Of what is done to streams; the others say little of a bucket, and `d` leads to all of them."""


class BucketsScreen(TableScreen):
    """The buckets table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ADD_BUCKET.binding("add"),
        Binding("d", "open('stream')", "Describe", id="bucket.describe"),
        *(
            one.binding(f"part('managing', 'manage', '{one.name}')")
            for one in STREAM_ACTIONS
            if one.name in _KEPT
        ),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = BUCKET_COLUMNS
    NOUN = "buckets"
    START = Order("bucket")
    OF_A_ROW: ClassVar[frozenset[str]] = frozenset({"open"})

    def __init__(self) -> None:
        super().__init__()
        self.managing = Managing(self, self.targets, lambda _: self.has_row)
        self.where.meant = lambda: meant_rows(self)

    def view(self) -> Any:
        """Return the buckets of the present state, of all systems."""
        return joined(self.where.shown, lambda one: BucketView(one.state, one.late_us))

    def empty_hint(self) -> str:
        """Return which key creates a bucket."""
        key = key_of(self, ADD_BUCKET.id)
        return f"{key} creates a key-value bucket or an object store" if key else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what may not be done; in a recording nothing can be made."""
        if action == "add":
            return self.may_do(ADD_BUCKET.name)
        return super().check_action(action, parameters)

    def action_add(self) -> None:
        """Make a bucket or an object store, on the system of the row under the cursor."""
        form = BucketForm()
        form.where.bound = self.where.system
        self.app.push_screen(form)

    def targets(self) -> list[Target]:
        """Return the streams that are marked, else the one under the cursor."""
        made = sorted((str(key[0]), int(key[1])) for key in acted_on(self))
        return [Target(stream, None, created_at_us) for stream, created_at_us in made]

    @on(RowSelected)
    def _look_inside(self) -> None:
        self.action_open("bucket")

    def action_open(self, what: str) -> None:
        """Go to what belongs to the bucket under the cursor."""
        if (key := own_key(self.table.cursor_key)) is not None:
            open_of_row(self, Open(what, str(key[0])))

    @on(VisibleChanged)
    def _watch(self, message: VisibleChanged) -> None:
        watch_shown(self, message.keys)
