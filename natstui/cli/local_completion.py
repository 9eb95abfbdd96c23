"""Shell completion that needs no connection.

On any error nothing is offered and nothing is printed, as click requires.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress

import click

from natstui.clean import clean_line
from natstui.errors import NatstuiError

CompletionFunction = Callable[[click.Context, click.Parameter, str], list[str]]


def create_completion(list_names: Callable[[click.Context], list[str]]) -> CompletionFunction:
    """Return a function for `shell_complete` of click that returns the names with the typed
    prefix.

    `list_names` returns all names; if it raises NatstuiError or OSError, no name is returned.
    Leaves out names with characters that a terminal does not show.
    """

    @functools.wraps(list_names)
    def complete(context: click.Context, _parameter: click.Parameter, prefix: str) -> list[str]:
        with suppress(NatstuiError, OSError):
            # A name that a terminal would not show as it is cannot be typed either.
            printable_names = (name for name in list_names(context) if clean_line(name) == name)
            return [name for name in printable_names if name.startswith(prefix)]
        return []

    return complete


@create_completion
def complete_contexts(_context: click.Context) -> list[str]:
    """Return the names of the contexts of the NATS CLI."""
    from natstui.config.contexts import list_contexts

    return list_contexts()
