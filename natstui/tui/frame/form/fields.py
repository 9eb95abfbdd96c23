"""The fields of a form in their sections, and the explanation of the one in focus."""

from __future__ import annotations

from textual import on
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Static

from natstui.model.assets.differences import normal
from natstui.model.assets.fields import Field
from natstui.model.assets.meaning.in_words import empty_text
from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.form.text import form_fields, locked, start_text
from natstui.tui.kit.fields import FieldRow, FormSection
from natstui.tui.kit.text import safe

_ESTIMATE = Field(
    "",
    "How much room for",
    "text",
    "Estimate",
    "Messages x size, as 1M x 1KB: the room it takes.",
    absent="as 1M x 1KB",
)


_AROUND_LINES = 7
"""Of a screen with a form: status (2) and caption above, explanation (2) and keys below; and one
to spare, for a caption of two lines."""


def _that_fit(counts: dict[str, int], room_lines: int) -> set[str]:
    """Return the sections to begin open, of how many fields each has: the first, and what fits."""
    first = next(iter(counts))
    left_lines = room_lines - len(counts) - counts[first]
    opened = {first}
    for title, count in counts.items():
        if title != first and count <= left_lines:
            opened.add(title)
            left_lines -= count
    return opened


class FormFields(VerticalScroll):
    """Shows what was entered, what was changed, and what is wrong."""

    def __init__(self, entries: Entries, hint: Static) -> None:
        """`hint` is where the field in focus is explained."""
        super().__init__(id="fields", can_focus=False)
        self._entries, self._hint = entries, hint
        self._in_focus = ""

    async def build(self, api_level: int | None) -> None:
        """Make the fields again for the present subject; keep the texts."""
        subject = self._entries.subject
        sections: dict[str, list[FieldRow]] = {}
        for field in form_fields(subject):
            row = FieldRow(field, self._entries.text_of(field), locked(subject, field, api_level))
            sections.setdefault(field.section, []).append(row)
        if subject.kind == "stream":
            sections["Estimate"] = [FieldRow(_ESTIMATE, self._entries.estimate)]
        await self.remove_children()
        counts = {title: len(rows) for title, rows in sections.items()}
        opened = _that_fit(counts, self.screen.size.height - _AROUND_LINES)
        await self.mount_all(
            FormSection(title, rows, open_at_start=title in opened)
            for title, rows in sections.items()
        )

    def editor(self) -> Widget | None:
        """Return where typing goes on: the field that had the keys, else the first of all."""
        usable = [row for row in self.query(FieldRow) if not row.disabled]
        before = [row for row in usable if row.field.path and row.field.path == self._in_focus]
        return (before or usable)[0].editor if usable else None

    def mark(self) -> None:
        """Show which fields are changed and which are wrong."""
        draft = self._entries.draft
        wrong = {problem.path for problem in draft.problems}
        completed = normal(self._entries.subject.kind, draft.config)
        for section in self.query(FormSection):
            for row in section.rows:
                row.show_empty(empty_text(row.field, completed))
                row.mark(
                    changed=self._entries.is_changed(row.field), wrong=row.field.path in wrong
                )
            section.tell(
                sum(row.has_class("-changed") for row in section.rows),
                sum(row.has_class("-wrong") for row in section.rows),
            )
        self._explain()

    def show_start(self) -> None:
        """Show what the form starts with now, in the fields where nothing was typed."""
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path and row.field.path not in self._entries.texts:
                    with row.prevent(Input.Changed):
                        row.set_text(start_text(self._entries.subject, row.field))

    async def open(self, path: str) -> Widget | None:
        """Open the section of a field and explain the field; return where it is typed."""
        self._in_focus = path
        self._explain()
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path == path:
                    await section.set_open(True)
                    return row.editor
        return None

    @on(FieldRow.Focused)
    def _focused(self, message: FieldRow.Focused) -> None:
        self._in_focus = message.path
        self._explain()

    def _explain(self) -> None:
        """Show what is wrong with the field in focus, else what it means."""
        subject, draft = self._entries.subject, self._entries.draft
        problems = [p.text for p in draft.problems if p.path == self._in_focus]
        if problems:
            self._hint.update(safe(problems[0], "error"))
            return
        fields = (*form_fields(subject), _ESTIMATE)
        field = next((f for f in fields if f.path == self._in_focus), None)
        if field is not None:
            why = locked(subject, field, None)
            self._hint.update(safe(why or field.help, "dim"))
