"""Another payload for the senders of a run that goes on."""

from __future__ import annotations

from dataclasses import replace

from natstui.bench.job.content import payload_place
from natstui.bench.plan.check import mistakes
from natstui.bench.plan.payload import sized
from natstui.errors import Refused, UsageError
from natstui.model.bench.payload_words import HOW, payload_of
from natstui.model.bench.plan import BenchmarkPlan, Payload, Role


def changed_payload(plan: BenchmarkPlan, role: Role, text: str) -> Role:
    """Return a role of a running plan with another payload. Raises UsageError and Refused."""
    try:
        changed = replace(role, payload=sized(payload_of(text, role.payload)))
    except ValueError as error:
        raise UsageError(f"{error}; write {HOW}") from error
    for mistake in mistakes(replace(plan, roles=(changed,), faults=())):
        raise UsageError(mistake)
    begun = next(one for one in plan.roles if one.name == role.name)
    _check_stamp(begun.payload, changed)
    return changed


def _check_stamp(begun: Payload, changed: Role) -> None:
    """Refuse what would leave receivers looking for a stamp where there is none."""
    place = payload_place(begun)
    if not place.length:
        return
    if (changed.payload.kind == "json") != place.as_hex:
        raise Refused(
            "receivers look for the stamp of JSON or of bytes: run it anew for the other"
        )
    least_bytes = place.offset + place.width
    if changed.payload.size_bytes < least_bytes and not place.as_hex:
        raise Refused(
            f"messages of this run carry a stamp, and need {least_bytes} bytes:"
            " run it anew for smaller ones"
        )
