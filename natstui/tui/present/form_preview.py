"""What a form will do, as coloured text: problems, warnings, the command, the JSON."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from natstui.model.config_change import differences
from natstui.tui.present.form import Drafted, Subject, config_text
from natstui.tui.text import safe, safe_lines


def preview(subject: Subject, draft: Drafted) -> Content:
    """Return the preview of a form."""
    parts: list[Content] = []
    for problem in draft.problems:
        parts.append(safe(f"✗ {problem.text}", "$text-error"))
    for warning in draft.warnings:
        parts.append(safe(f"! {warning}", "$text-warning"))
    for note in draft.notes:
        parts.append(safe(note, "$text-accent"))
    for text, refused in draft.changes:
        parts.append(safe(text, "$text-error" if refused else "$text-success"))
        parts += [safe(f"   refused: {refused}", "$text-error")] if refused else []
    if subject.editing and not draft.changes:
        parts.append(safe("nothing is changed yet", "$text-muted"))
    parts += [
        Content(),
        safe("The same with the nats command:", "$text-muted"),
        safe(draft.command),
        Content(),
        safe("What will be sent:", "$text-muted"),
        safe_lines(config_text(draft.config)),
    ]
    return Content("\n").join(parts)


def conflict_text(subject: Subject, current: Mapping[str, object]) -> Content:
    """Return both versions of what somebody else changed meanwhile."""
    parts = [
        safe("Somebody changed it while this form was open; nothing was written.", "$text-error"),
        safe("Your changes are kept and now build on what is there. ctrl+o shows the form.", ""),
        Content(),
    ]
    for item in differences(subject.kind, subject.base, current):
        parts.append(safe(item.label, "bold"))
        parts.append(safe(f"   when you opened it: {item.before or 'unset'}"))
        parts.append(safe(f"   now:                {item.after or 'unset'}", "$text-warning"))
    return Content("\n").join(parts)
