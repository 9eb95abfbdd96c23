"""Whether the user may publish to a subject, as far as the server has told."""

from __future__ import annotations

from natstui.model.record import Permitted
from natstui.model.subjects import overlap


def may_publish(permitted: Permitted | None, subject: str) -> bool:
    """Tell whether publishing is allowed to some subject of a pattern; unknown counts as yes."""
    if permitted is None:
        return True
    if any(overlap(denied, subject.replace("*", "?")) for denied in permitted.publish_deny):
        return False
    allowed = permitted.publish_allow
    return allowed is None or any(overlap(one, subject) for one in allowed)
