"""What a big table tells its screen."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from natstui.tui.widgets.table_view import TableView


class TableMessage(Message, bubble=True, namespace="big_table"):
    """A message that knows its table, so that `@on(…, "#id")` works."""

    def __init__(self, table: TableView) -> None:
        super().__init__()
        self.table = table

    @property
    def control(self) -> TableView:
        """Return the table."""
        return self.table


class RowHighlighted(TableMessage, namespace="big_table"):
    """The cursor is on another row; `key` is None when there are no rows."""

    def __init__(self, table: TableView, key: Hashable | None) -> None:
        super().__init__(table)
        self.key = key


class RowSelected(TableMessage, namespace="big_table"):
    """The user opens a row: enter or a double click."""

    def __init__(self, table: TableView, key: Hashable) -> None:
        super().__init__(table)
        self.key = key


class HeaderSelected(TableMessage, namespace="big_table"):
    """The user wants the rows sorted by a column; again by the same one: the other way round."""

    def __init__(self, table: TableView, column_id: str) -> None:
        super().__init__(table)
        self.column_id = column_id


class MarksChanged(TableMessage, namespace="big_table"):
    """Rows were marked or unmarked; a key may belong to a row that is filtered out or gone."""

    def __init__(self, table: TableView, keys: frozenset[Hashable]) -> None:
        super().__init__(table)
        self.keys = keys


class VisibleChanged(TableMessage, namespace="big_table"):
    """Other rows are on the screen than before, and scrolling came to rest."""

    def __init__(self, table: TableView, keys: tuple[Hashable, ...]) -> None:
        super().__init__(table)
        self.keys = keys
