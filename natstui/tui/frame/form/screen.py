"""The form of a stream or consumer: fields at the left, a preview of the change at the right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual import events, getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Static

from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.model.assets.differences import normalize_config
from natstui.model.assets.fields import Config, Field, text_at
from natstui.model.assets.meaning import empty_text
from natstui.model.assets.rules import NamesInUse
from natstui.model.records.managing import (
    Change,
    ReadNamesInUse,
)
from natstui.model.records.messages import Answered
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.confirmation import (
    SENDING_TEXT,
    FormServer,
    confirmation_in,
    request_confirmed,
)
from natstui.tui.frame.form.text import (
    FormAsset,
    FormEntries,
    FormKeys,
    caption_text,
    config_of_file,
    conflict_text,
    form_fields,
    lock_reason,
    preview_content,
    start_text,
)
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.selection import CreatedRow, SelectionScreen
from natstui.tui.kit.fields import FieldRow, FormSection
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe
from natstui.values import replace

_ESTIMATE_FIELD = Field(
    "",
    "Room for how many messages?",
    "text",
    "Estimate",
    "Messages x size, as 1M x 1KB: shows the storage needed.",
    absent_text="as 1M x 1KB",
)


_PREVIEW_GROUP = "preview"
PREVIEW_AFTER_S = 0.3
"""Time without a key after which the losses of an edit are requested."""
_LINES_OUTSIDE_FIELDS = 7
"""Lines of a form screen without fields: status (2), caption (up to 2), help (2), keys."""


def _find_open_sections(field_count_by_section: dict[str, int], available_lines: int) -> set[str]:
    """Return the titles of the sections to open first: the first one, and all others that fit into
    the available lines.
    """
    first_title = next(iter(field_count_by_section))
    remaining_lines = (
        available_lines - len(field_count_by_section) - field_count_by_section[first_title]
    )
    open_sections = {first_title}
    for title, count in field_count_by_section.items():
        if title != first_title and count <= remaining_lines:
            open_sections.add(title)
            remaining_lines -= count
    return open_sections


class FormFields(VerticalScroll):
    """Shows the fields of a form, and marks changed and wrong fields."""

    def __init__(self, entries: FormEntries, hint: Static) -> None:
        """Create the fields of a form; `hint` shows the help of the focused field."""
        super().__init__(id="fields", can_focus=False)
        self._entries, self._hint = entries, hint
        self._focused_field_path = ""

    async def build(self, api_level: int | None) -> None:
        """Create the fields of the stream or consumer again; typed texts are kept."""
        asset = self._entries.asset
        sections: dict[str, list[FieldRow]] = {}
        for field in form_fields(asset):
            row = FieldRow(
                field, self._entries.text_of(field), lock_reason(asset, field, api_level)
            )
            sections.setdefault(field.section, []).append(row)
        if asset.kind == "stream":
            sections["Estimate"] = [FieldRow(_ESTIMATE_FIELD, self._entries.estimate)]
        await self.remove_children()
        field_count_by_section = {title: len(rows) for title, rows in sections.items()}
        open_sections = _find_open_sections(
            field_count_by_section, self.screen.size.height - _LINES_OUTSIDE_FIELDS
        )
        await self.mount_all(
            FormSection(title, rows, open_at_start=title in open_sections)
            for title, rows in sections.items()
        )

    def editor(self) -> Widget | None:
        """Return the widget to type in: of the field that had the focus, else of the first field;
        None if no field can be edited.
        """
        enabled_rows = [row for row in self.query(FieldRow) if not row.disabled]
        focused_rows = [
            row
            for row in enabled_rows
            if row.field.path and row.field.path == self._focused_field_path
        ]
        return (focused_rows or enabled_rows)[0].editor if enabled_rows else None

    def update_field_marks(self) -> None:
        """Mark the fields whose text is changed or wrong, and count them in the titles of the
        sections.
        """
        draft = self._entries.draft
        wrong_paths = {problem.path for problem in draft.problems}
        normalized_config = normalize_config(self._entries.asset.kind, draft.config)
        for section in self.query(FormSection):
            for row in section.rows:
                row.show_placeholder(empty_text(row.field, normalized_config))
                row.mark(
                    is_changed=self._entries.is_changed(row.field),
                    is_wrong=row.field.path in wrong_paths,
                )
            section.show_counts(
                sum(row.has_class("-changed") for row in section.rows),
                sum(row.has_class("-wrong") for row in section.rows),
            )
        self._update_hint()

    def show_start_texts(self) -> None:
        """Show the start texts in fields without typed text."""
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path and row.field.path not in self._entries.texts:
                    with row.prevent(Input.Changed):
                        row.set_text(start_text(self._entries.asset, row.field))

    async def open_field(self, path: str) -> Widget | None:
        """Open the section of a field and show the field's help; return its input widget, None
        without such a field.
        """
        self._focused_field_path = path
        self._update_hint()
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path == path:
                    await section.set_open(True)
                    return row.editor
        return None

    @on(FieldRow.Focused)
    def _show_focused_help(self, message: FieldRow.Focused) -> None:
        self._focused_field_path = message.path
        self._update_hint()

    def _update_hint(self) -> None:
        """Show the error of the focused field, else its help."""
        asset, draft = self._entries.asset, self._entries.draft
        problems = [
            problem.text for problem in draft.problems if problem.path == self._focused_field_path
        ]
        if problems:
            self._hint.update(safe(problems[0], "error"))
            return
        fields = (*form_fields(asset), _ESTIMATE_FIELD)
        field = next(
            (form_field for form_field in fields if form_field.path == self._focused_field_path),
            None,
        )
        if field is not None:
            reason = lock_reason(asset, field, None)
            self._hint.update(safe(reason or field.help, "dim"))


class FormSender(ScreenPart):
    """Sends the draft of a form, after the user has fixed its errors and has confirmed what it
    deletes.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "part('sending', 'send')", "Send", id="form.send", priority=True),
    ]

    def __init__(self, screen: FormScreen) -> None:
        self._screen, self._entries = screen, screen.entries
        self.form_server = FormServer(screen)
        self.deletion_lines: tuple[str, ...] = ()
        """Lines that name what the current draft would delete for good."""
        self._previewed_draft_json = json.dumps(screen.entries.draft.config)
        """The draft, as JSON, whose deletions are known or were requested."""
        self.is_sending = False
        self.sent_texts: dict[str, str] = {}
        """The typed texts when the form was sent last."""

    @property
    def is_everything_sent(self) -> bool:
        """Return whether nothing was typed since the form was sent."""
        return self._entries.texts == self.sent_texts

    async def action_send(self) -> None:
        """Send the draft, or focus the first wrong field."""
        if problems := self._entries.draft.problems:
            await self._screen.focus_field(problems[0].path)
        elif not self.is_sending:
            # At once: the next key must not load a file that the reply would discard.
            self.is_sending = True
            # Its reply would replace what the reply to the change shows.
            self._screen.workers.cancel_group(self._screen, _PREVIEW_GROUP)
            self._previewed_draft_json = ""
            run_task(self._screen, self._send)

    def preview_deletions(self) -> None:
        """Request and show what an edit would delete, unless that is known for the same draft."""
        draft = self._entries.draft
        config = json.dumps(draft.config)
        if (
            not self._entries.asset.is_edit
            or draft.problems
            or config == self._previewed_draft_json
        ):
            return
        self._previewed_draft_json = config
        run_task(self._screen, self._read_deletions, replaces=_PREVIEW_GROUP)

    async def _read_deletions(self) -> None:
        """Request what the edit would delete, and show it."""
        # The next key replaces this worker: only a text that stays is sent.
        await asyncio.sleep(PREVIEW_AFTER_S)
        reply = await self._screen.engine.request(replace(self._create_change(), dry_run=True))
        self.deletion_lines = confirmation_in(reply).lines if reply.body_json else ()
        self._screen.show_draft()

    def mark_previewed(self) -> None:
        """Treat `deletion_lines` as those of the current draft, so that they are not requested
        again.
        """
        self._previewed_draft_json = json.dumps(self._entries.draft.config)

    async def _send(self) -> None:
        """Send the draft and show the reply; prompt for the name if the engine requires it."""
        self.sent_texts = dict(self._entries.texts)
        self._screen.show_sentence(SENDING_TEXT)
        self._screen.refresh_bindings()
        reply = await request_confirmed(self._screen, self._create_change())
        self.is_sending = False
        self._screen.refresh_bindings()
        if reply is None:
            self._screen.show_sentence("")
            self.preview_deletions()
        else:
            self._screen.show_reply(reply)

    def _create_change(self) -> Change:
        asset, config = self._entries.asset, self._entries.draft.config
        name = self._entries.name
        is_consumer = asset.kind == "consumer"
        return Change(
            0,
            f"{'edit' if asset.is_edit else 'create'}_{asset.kind}",  # type: ignore[arg-type]
            asset.stream if is_consumer else name,
            name or None if is_consumer else None,
            json.dumps(config),
            json.dumps(dict(asset.base)) if asset.is_edit else None,
            created_at_us=asset.created_at_us,
            place=self.form_server.identity,
        )


class PreviewControls(ScreenPart):
    """Switches between the fields with the preview, and the preview alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "part('plan', 'switch')", "Preview", id="form.preview", priority=True),
        Binding("ctrl+y", "part('plan', 'copy')", "Copy command", id="form.copy", priority=True),
    ]

    def __init__(self, screen: FormScreen) -> None:
        self._screen = screen
        self._previous_focus: Widget | None = None
        """The widget that had the focus before the preview was shown alone."""

    @property
    def is_preview_only(self) -> bool:
        """Return whether the preview hides the fields."""
        return self._screen.has_class("-preview")

    def show(self, *, is_preview_only: bool) -> None:
        """Show the preview without the fields, or the fields with the previous focus."""
        if is_preview_only and self._screen.focused is not None:
            self._previous_focus = self._screen.focused
            self._screen.set_focus(None)
        self._screen.set_class(is_preview_only, "-preview")
        # At once, not by the class: a hidden widget cannot receive the focus.
        self._screen.fields.display = not is_preview_only
        if not is_preview_only and self._previous_focus is not None:
            self._screen.set_focus(self._previous_focus)

    def focus_editor(self, editor: Widget | None) -> None:
        """Show the fields, and focus `editor`, else the previous field."""
        self._previous_focus = editor or self._previous_focus
        self.show(is_preview_only=False)

    def action_switch(self) -> None:
        """Switch between the preview alone and the fields with the preview."""
        self.show(is_preview_only=not self.is_preview_only)

    def action_copy(self) -> None:
        """Copy the equivalent nats command."""
        self._screen.app.copy_to_clipboard(self._screen.entries.draft.command)
        self._screen.notify("copied the nats command", timeout=2)


_FILE_PROMPT = "JSON, YAML or TOML file to start from"


class StartFileLoader(ScreenPart):
    """Prompts for a configuration file to start from; repeats the prompt with the error if the
    file is not valid.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+l",
            "part('file', 'load')",
            "Load file",
            show=False,
            id="form.load",
            priority=True,
        ),
    ]

    def __init__(self, screen: FormScreen) -> None:
        self._screen = screen

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether loading is offered: for a new stream or consumer; None while it is
        sent.
        """
        if self._screen.entries.asset.is_edit:
            return False
        return None if self._screen.sending.is_sending else True

    def action_load(self) -> None:
        """Prompt for a file, and start from the configuration in it."""
        run_task(self._screen, self._prompt_and_load)

    async def _prompt_and_load(self) -> None:
        app, file_path, reason = self._screen.app, "", ""
        while True:
            typed_path = await app.push_screen_wait(
                Prompt(_FILE_PROMPT, file_path, refused_reason=reason)
            )
            if not typed_path:
                return
            file_path = typed_path
            try:
                config = config_of_file(file_path, self._screen.entries.asset.kind)
            except UsageError as error:
                reason = str(error)
            else:
                await self._screen.build(config)
                return


class FormScreen(LiveScreen):
    """The form to create or edit a stream or consumer; nothing is sent before ctrl+s."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *FormSender.BINDINGS,
        Binding("escape", "back", "Cancel", id="form.cancel"),
        *PreviewControls.BINDINGS,
        Binding("down", "app.focus_next", "Next", show=False, id="form.down", priority=True),
        Binding("up", "app.focus_previous", "Back", show=False, id="form.up", priority=True),
        *StartFileLoader.BINDINGS,
    ]
    DEFAULT_CSS = """
    FormScreen #form { height: 1fr; }
    FormScreen #fields { width: 3fr; scrollbar-size: 1 1; }
    FormScreen #preview { width: 2fr; padding: 0 1; }
    FormScreen #hint { height: 2; padding: 0 1; background: $surface; }
    FormScreen.-narrow #preview { display: none; }
    FormScreen.-preview #preview { display: block; width: 1fr; }
    """

    caption = getters.query_one("#caption", Static)
    fields = getters.query_one(FormFields)

    def __init__(self, asset: FormAsset) -> None:
        super().__init__()
        self.entries = FormEntries(asset)
        self.plan = PreviewControls(self)
        self.sending = FormSender(self)
        self.file = StartFileLoader(self)
        self.first_path = ""
        """Path of the field to focus first; empty for the first field."""

    def key_label(self, binding: Binding) -> str:
        """Return the current label of a key; `Cancel` is `Close` while the form is sent."""
        if binding.id == "form.cancel" and self.sending.is_sending:
            return "Close"
        return super().key_label(binding)

    def asset(self) -> Target | None:
        """Return the stream or consumer to edit, or the stream of a new consumer."""
        asset = self.entries.asset
        if not asset.is_edit:
            return Target(asset.stream) if asset.stream else None
        name = text_at(asset.base, "name")
        return Target(
            asset.stream or name,
            name if asset.kind == "consumer" else None,
            asset.created_at_us,
        )

    def body(self) -> Iterable[Widget]:
        """Yield the caption, the fields beside the preview, and the help of the focused field."""
        hint = FixedText(id="hint", markup=False)
        yield Static(id="caption", markup=False)
        with Horizontal(id="form"):
            yield FormFields(self.entries, hint)
            yield VerticalScroll(Static(id="plan", markup=False), id="preview", can_focus=False)
        yield hint

    async def on_mount(self) -> None:
        """Build the fields, and request existing names and the identity of the server."""
        await self.build()
        run_task(self, self.read_names, replaces="names")
        run_task(self, self.sending.form_server.read)

    async def read_names(self) -> None:
        """Request the names and limits in use, and check the draft against them."""
        reply = await self.engine.request(ReadNamesInUse(0, self.entries.asset.stream or None))
        if reply.body_json:
            self.entries.in_use = decoder_of(NamesInUse).decode(reply.body_json)
            self.update_draft()

    async def build(self, base: Config | None = None) -> None:
        """Create the fields again, from the start configuration `base` if given; typed texts are
        kept.
        """
        if base is not None:
            self.entries.start_from(base)
        await self.fields.build(self.state.link.api_level if self.state.link else None)
        self.update_draft()
        first_path, self.first_path = self.first_path, ""
        editor = await self.fields.open_field(first_path) if first_path else self.fields.editor()
        if editor is not None:
            # Not focus(), which is delayed: the editor must receive the next key.
            self.set_focus(editor)

    @on(FieldRow.Edited)
    def _store_edited_text(self, message: FieldRow.Edited) -> None:
        self.put(message.path, message.text)
        self.update_draft()

    def put(self, path: str, text: str) -> None:
        """Store the text typed into a field."""
        self.entries.put(path, text)

    def update_draft(self) -> None:
        """Compute the draft from the current texts, and show its errors and preview."""
        self.entries.update_draft()
        self.show_draft()

    def show_draft(self) -> None:
        """Show the errors and the preview of the draft."""
        self.fields.update_field_marks()
        preview_text = preview_content(
            self.entries.asset, self.entries.draft, self.sending.deletion_lines
        )
        self.query_one("#plan", Static).update(preview_text)
        self.sending.preview_deletions()
        # The reply to a preview may come while the form is sent.
        self.show_sentence(SENDING_TEXT if self.sending.is_sending else "")

    def show_sentence(self, text: str, style: str = "") -> None:
        """Show a sentence in the caption; for an empty text, show whether the form can be sent."""
        is_narrow = self.has_class("-narrow")
        asset, draft = self.entries.asset, self.entries.draft
        caption = caption_text(asset, draft, self._keys(), text, style, is_narrow=is_narrow)
        self.caption.update(caption)

    def _keys(self) -> FormKeys:
        return FormKeys(key_of(self, "form.send"), key_of(self, "form.preview"))

    def show_reply(self, reply: Answered) -> None:
        """Close the form after a success, else show the error or the conflicting edit."""
        if reply.status == "done":
            body = json.loads(reply.body_json or "{}")
            if body.get("unapplied_settings"):
                self.app.notify(reply.text, severity="warning", timeout=10, markup=False)
            else:
                self.app.notify(reply.text, markup=False)
            self._close_or_continue(body.get("after"), body.get("created_at_us"))
            return
        if reply.body_json and reply.status == "failed":
            current_config = json.loads(reply.body_json)["current"]
            conflict = conflict_text(self.entries.asset, current_config, self._keys())
            self._restart_from(current_config)
            self.query_one("#plan", Static).update(conflict)
            self.plan.show(is_preview_only=True)
        self.show_sentence(reply.text, "error")

    def _close_or_continue(
        self, stored_config: Mapping[str, object] | None, created_at_us: int | None
    ) -> None:
        """Close the form after a success; if texts were typed while it was sent, edit
        `stored_config` with them instead.

        `created_at_us` is None after an edit.
        """
        if self.sending.is_everything_sent or stored_config is None:
            self._seek_created_row()
            self.dismiss()
            return
        asset, name = self.entries.asset, text_at(stored_config, "name")
        edited_asset = replace(
            asset, base=stored_config, is_edit=True, stream=asset.stream or name,
            created_at_us=created_at_us or asset.created_at_us,
        )  # fmt: skip
        self.entries.continue_from(edited_asset, self.sending.sent_texts)
        self.entries.update_draft()
        self.notify("changes typed in the meantime are not sent yet", severity="warning")
        self.call_later(self.build)

    def _seek_created_row(self) -> None:
        """Let the table on the screen below move its cursor to the created row as soon as that row
        exists.
        """
        asset, stack = self.entries.asset, self.app.screen_stack
        screen_below = stack[stack.index(self) - 1]
        if not asset.is_edit and isinstance(screen_below, SelectionScreen):
            name = self.entries.name
            names = (name,) if asset.kind == "stream" else (asset.stream, name)
            screen_below.row_to_find = CreatedRow(
                names, screen_below.scope.acting.name, screen_below.table.cursor_key
            )

    def _restart_from(self, current_config: Mapping[str, object]) -> None:
        """Restart from the server's current configuration; typed texts are kept."""
        self.entries.start_from(current_config)
        self.entries.update_draft()
        self.sending.mark_previewed()
        self.fields.show_start_texts()
        self.update_draft()

    async def focus_field(self, path: str) -> None:
        """Show the fields, and focus the field with this path."""
        self.plan.focus_editor(await self.fields.open_field(path))

    def on_key(self, event: events.Key) -> None:
        """Show how to return to the fields if letters are typed in the preview."""
        if event.is_printable and self.plan.is_preview_only:
            self.notify("escape goes back to the fields", timeout=2)

    def unsent_text(self) -> str:
        """Return a summary of typed texts that were not sent."""
        return "" if self.sending.is_sending else self.entries.unsent_text()

    def action_back(self) -> None:
        """Close the preview if only the preview is shown, else the form."""
        if self.plan.is_preview_only:
            self.plan.show(is_preview_only=False)
        else:
            super().action_back()
