"""How a shell is offered names while somebody types; those that need no connection.

click asks: whatever goes wrong, nothing is offered and nothing said.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress

import click

from natstui.clean import clean_line
from natstui.errors import NatstuiError

Offer = Callable[[click.Context, click.Parameter, str], list[str]]


def offering(names: Callable[[click.Context], list[str]]) -> Offer:
    """Return what offers those of the names that begin with what was typed."""

    @functools.wraps(names)
    def offer(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        with suppress(NatstuiError, OSError):
            # A name that a terminal would not show as it is cannot be typed either.
            found = (name for name in names(context) if clean_line(name) == name)
            return [name for name in found if name.startswith(typed)]
        return []

    return offer


@offering
def contexts(_context: click.Context) -> list[str]:
    """Offer the contexts of the NATS CLI."""
    from natstui.config.contexts import known_contexts

    return known_contexts()
