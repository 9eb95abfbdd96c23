"""The list of buckets and object stores, and the form of a new one; each one is a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.model.assets.buckets import (
    KV,
    MAX_HISTORY_COUNT,
    BucketOptions,
    bucket_config,
    is_bucket_name,
    object_store_config,
)
from natstui.model.assets.fields import Config, Field
from natstui.model.assets.text import exact_duration, parse_field
from natstui.model.records.managing import Change
from natstui.tui.frame.action_keys import ADD_BUCKET, STREAM_ACTIONS, Target
from natstui.tui.frame.action_runner import ActionRunner
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.confirmation import SENDING_TEXT, FormServer, request_confirmed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Open
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.selection import (
    find_target_assets,
    find_target_keys,
    poll_visible_rows_first,
    post_for_row,
)
from natstui.tui.frame.systems import join_views, key_without_system
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.table.view import RowSelected, VisibleChanged
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.stores.cells import BUCKET_COLUMNS, BucketView
from natstui.units import bytes_text, counted

BUCKET_FIELDS = (
    Field("name", "Name", "text", "", "Letters, digits, - and _."),
    Field("holds", "Holds", "choice", "", "Key-value bucket or object store (for files).",
          default="keys", choices=("keys", "files")),
    Field("history", "History", "count", "",
          "Number of values kept per key; with 1, an overwritten value cannot be restored."),
    Field("ttl", "TTL", "duration", "", "How long values are kept, as 1d; empty: for ever."),
    Field("bytes", "Max bytes", "bytes", "", "Largest total size, as 1GB; empty: no limit."),
    Field("value_bytes", "Max value bytes", "bytes", "",
        "Largest value, as 64KB; only for key-value buckets."),
    Field("replicas", "Replicas", "count", "", "Number of replicas, 1 to 5."),
    Field("compressed", "Compressed", "switch", "", "Whether the server compresses.",
          default=False),
    Field("storage", "Storage", "choice", "", "Memory storage is lost when the servers stop.",
          default="file", choices=("file", "memory")),
    Field("description", "Description", "text", "", "For people."),
)  # fmt: skip
_START_TEXT_BY_PATH = {"history": "5", "replicas": "1"}
"""Start values of the form; with a history, an undo can restore a value."""


def build_bucket_config(texts: Mapping[str, str]) -> Config:
    """Return the stream configuration of a bucket from the texts of its form by field path; raises
    ValueError with a sentence for a text that is not valid.
    """
    values = {field.path: parse_field(field, texts.get(field.path, "")) for field in BUCKET_FIELDS}
    name = str(values["name"] or "")
    if not is_bucket_name(name):
        raise ValueError(
            f"Name: {name!r} is not a valid bucket name: use letters, digits, - and _"
        )
    is_key_value = values["holds"] != "files"
    history, replicas = (
        _number_or_default(values["history"], 1),
        _number_or_default(values["replicas"], 1),
    )
    if is_key_value and not 1 <= history <= MAX_HISTORY_COUNT:
        raise ValueError(f"History: between 1 and {MAX_HISTORY_COUNT}, not {history}")
    if not 1 <= replicas <= 5:
        raise ValueError(f"Replicas: between 1 and 5, not {replicas}")
    options = BucketOptions(
        str(values["description"] or "") or None, history,
        _number_or_default(values["ttl"], 0), 0, replicas,
        str(values["storage"] or "file"), _number_or_default(values["value_bytes"], -1),
        _number_or_default(values["bytes"], -1), values["compressed"] is True,
    )  # fmt: skip
    return bucket_config(name, options) if is_key_value else object_store_config(name, options)


def _number_or_default(value: object, default_number: int) -> int:
    return value if isinstance(value, int) and value >= 0 else default_number


def meaning_text(config: Config) -> str:
    """Return a sentence about what a new bucket stores, its limits and its servers."""
    name, max_age_ns, max_bucket_bytes = (
        str(config["name"]),
        _number_or_default(config["max_age"], 0),
        config["max_bytes"],
    )
    age_text = f"for {exact_duration(max_age_ns)}" if max_age_ns else "until deleted"
    if name.startswith(KV):
        history = _number_or_default(config["max_msgs_per_subject"], 1)
        parts = [f"keeps {counted(history, 'value')} of each key, each {age_text}"]
        max_bytes = _number_or_default(config["max_msg_size"], 0)
        parts += [f"a value of at most {bytes_text(max_bytes)}"] if max_bytes else []
    else:
        parts = [f"keeps files, each {age_text}"]
    parts.append(
        f"at most {bytes_text(_number_or_default(max_bucket_bytes, 0))}"
        if _number_or_default(max_bucket_bytes, 0)
        else "without a limit"
    )
    compression_text = "compressed " if config["compression"] == "s2" else ""
    storage_text = "in the memory" if config["storage"] == "memory" else "on disk"
    servers = counted(_number_or_default(config["num_replicas"], 1), "server")
    return f"{name}: {'; '.join(parts)}; {compression_text}{storage_text} of {servers}"


class BucketForm(LiveScreen):
    """The form of a new bucket or object store; after the creation it opens the bucket."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "send", "Make", id="bucket.make", priority=True),
        Binding("escape", "back", "Close", id="bucket.close", priority=True),
        Binding("down", "app.focus_next", "Next", show=False, id="bucket.down"),
        Binding("up", "app.focus_previous", "Previous", show=False, id="bucket.up"),
    ]
    DEFAULT_CSS = """
    BucketForm #means { height: auto; padding: 0 1; margin: 1 0 0 0; }
    BucketForm #hint { height: 2; padding: 0 1; }
    BucketForm VerticalScroll { height: 1fr; }
    """

    caption = getters.query_one("#caption", Static)
    means = getters.query_one("#means", Static)
    hint = getters.query_one("#hint", Static)

    def __init__(self) -> None:
        super().__init__()
        self.texts = dict(_START_TEXT_BY_PATH)
        self._form_server = FormServer(self)
        self._is_sending = False
        self._is_bucket_created = False

    def body(self) -> Iterable[Widget]:
        """Yield the fields, their meaning, and the help of the focused field."""
        yield Static(id="caption", markup=False)
        with VerticalScroll(can_focus=False):
            for field in BUCKET_FIELDS:
                yield FieldRow(field, self.texts.get(field.path, ""))
            yield Static(id="means", markup=False)
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Focus the name field, and read the identity of the server."""
        send_key = key_of(self, "bucket.make")
        self.caption.update(safe(f"New bucket or object store · {send_key} creates it"))
        self.set_focus(self.query(FieldRow).first().editor)
        run_task(self, self._form_server.read)
        self._show_meaning()

    @on(FieldRow.Focused)
    def _show_help(self, message: FieldRow.Focused) -> None:
        field = next(field for field in BUCKET_FIELDS if field.path == message.path)
        self.hint.update(safe(field.help, "dim"))

    @on(FieldRow.Edited)
    def _store_text(self, message: FieldRow.Edited) -> None:
        self.texts[message.path] = message.text
        self._show_meaning()

    def _show_meaning(self, error_text: str = "") -> None:
        """Show a sentence about the bucket that the fields describe, or an error."""
        try:
            meaning = meaning_text(build_bucket_config(self.texts))
        except ValueError as error:
            # A form without a name shows no error: nothing was typed yet.
            has_name = bool(self.texts.get("name"))
            self.means.update(safe(str(error) if has_name else "Enter a name.", "warn"))
            return
        self.means.update(safe(error_text or clean_line(meaning), "error" if error_text else ""))

    def unsent_text(self) -> str:
        """Return a summary of typed text that was not sent."""
        typed_texts = {path: text for path, text in self.texts.items() if text}
        is_unsent = (
            typed_texts != _START_TEXT_BY_PATH
            and not self._is_sending
            and not self._is_bucket_created
        )
        return "the new bucket" if is_unsent else ""

    def action_send(self) -> None:
        """Create the bucket, in production after a prompt for its stream's name."""
        try:
            config = build_bucket_config(self.texts)
        except ValueError as error:
            self.means.update(safe(str(error), "error"))
            return
        if not self._is_sending:
            run_task(self, self._send, str(config["name"]), json.dumps(config))

    async def _send(self, name: str, body: str) -> None:
        self._is_sending = True
        self.means.update(safe(SENDING_TEXT))
        change = Change(0, "create_stream", name, None, body, place=self._form_server.identity)
        reply = await request_confirmed(self, change)
        self._is_sending = False
        if reply is None:
            self._show_meaning()
            return
        if reply.status != "done":
            self._show_meaning(clean_line(reply.text))
            return
        self._is_bucket_created = True
        self.app.notify(safe_copy(reply.text))
        self.leave()
        self.app.post_message(Open("bucket", name))


_OFFERED_STREAM_ACTIONS = {"edit-stream", "messages", "delete_stream", "undo"}
"""Stream actions that are offered for buckets; the details of the stream offer the others."""


class BucketsScreen(TableScreen):
    """The table of buckets and object stores."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ADD_BUCKET.binding("add"),
        Binding("d", "open('stream')", "Describe", id="bucket.describe"),
        *(
            spec.binding(f"part('managing', 'manage', '{spec.name}')")
            for spec in STREAM_ACTIONS
            if spec.name in _OFFERED_STREAM_ACTIONS
        ),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = BUCKET_COLUMNS
    NOUN = "buckets"
    DEFAULT_ORDER = SortAndFilter("bucket")
    ROW_ACTIONS: ClassVar[frozenset[str]] = frozenset({"open"})

    def __init__(self) -> None:
        super().__init__()
        self.managing = ActionRunner(
            self,
            self.targets,
            lambda _: self.has_row,
            partial(self.targets, only_cursor=True),
        )
        self.scope.get_target_keys = lambda: find_target_keys(self)

    def view(self) -> Any:
        """Return a view of the buckets of all shown systems."""
        systems = self.scope.shown_systems
        return join_views(
            systems, [BucketView(system.state, system.poll_age_us) for system in systems]
        )

    def empty_hint(self) -> str:
        """Return the text about the key that creates a bucket; empty if the key is disabled."""
        key = key_of(self, ADD_BUCKET.id)
        return f"{key} creates a key-value bucket or an object store" if key else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled; None without permission, False in a replay."""
        if action == "add":
            return self.is_action_offered(ADD_BUCKET.name)
        return super().check_action(action, parameters)

    def action_add(self) -> None:
        """Open the form of a new bucket, on the system of the row under the cursor."""
        form = BucketForm()
        form.scope.bound_system = self.scope.system
        self.app.push_screen(form)

    def targets(self, *, only_cursor: bool = False) -> list[Target]:
        """Return the streams of the marked buckets, else or with `only_cursor` of the bucket under
        the cursor.
        """
        keys = find_target_assets(self, only_cursor=only_cursor)
        stream_keys = sorted((str(key[0]), int(key[1])) for key in keys)
        return [Target(stream, None, created_at_us) for stream, created_at_us in stream_keys]

    @on(RowSelected)
    def _open_contents(self) -> None:
        self.action_open("bucket")

    def action_open(self, target: str) -> None:
        """Open the keys, objects, stream or messages of the bucket under the cursor."""
        if (key := key_without_system(self.table.cursor_key)) is not None:
            post_for_row(self, Open(target, str(key[0])))

    @on(VisibleChanged)
    def _poll_visible_rows(self, message: VisibleChanged) -> None:
        poll_visible_rows_first(self, message.keys)
