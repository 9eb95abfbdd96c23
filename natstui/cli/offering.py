"""Shell completion that needs no connection.

For click: on any error nothing is offered and nothing printed.
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
    """Return a function for `shell_complete` of click that offers those of `names` with a prefix.

    The prefix is what was typed so far. Offers nothing if `names` fails, and never raises
    NatstuiError or OSError. Leaves out names with characters that a terminal does not show.
    """

    @functools.wraps(names)
    def offer(context: click.Context, _parameter: click.Parameter, prefix: str) -> list[str]:
        with suppress(NatstuiError, OSError):
            # A name that a terminal would not show as it is cannot be typed either.
            valid_names = (name for name in names(context) if clean_line(name) == name)
            return [name for name in valid_names if name.startswith(prefix)]
        return []

    return offer


@offering
def contexts(_context: click.Context) -> list[str]:
    """Return the names of the contexts of the NATS CLI."""
    from natstui.config.contexts import known_contexts

    return known_contexts()
