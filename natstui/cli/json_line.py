"""One JSON object as one line of stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from natstui.clean import clean_json


def print_json(values: Mapping[str, object]) -> None:
    """Print an object as one line of JSON, with control characters escaped."""
    click.echo(clean_json(json.dumps(values)))
