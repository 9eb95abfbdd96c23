"""`natstui meta`: the group that decides which streams and consumers there are."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.manage.options import argument_options
from natstui.cli.manage.writing import change_flags, confirmation, refuse_read_only
from natstui.cli.options import connection_options
from natstui.cli.sections import Group
from natstui.config import Connection
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.system.meta import (
    StepDown,
    meta_without,
    read_meta,
    remove_server,
    step_down_meta,
)
from natstui.jetstream.system.source import System
from natstui.model.records.system import RemoveServer
from natstui.model.servers.words import removal_question


@click.group(cls=Group)
def meta() -> None:
    """Manage the meta group of the cluster. Who leads it, and who belongs to it."""


@meta.command("step-down")
@argument_options("step_down_meta")
@change_flags
@connection_options
def step_down(connection: Connection, asked: dict[str, Any], **words: Any) -> None:
    """Elect another leader of the meta group.

    Only the system account may. Meanwhile streams and consumers cannot be created or changed;
    messages flow on.
    """
    refuse_read_only(connection, words["read_only"])
    text = asyncio.run(_step_down(connection, asked.get("preferred"), words))
    click.echo(clean_line(text))


async def _step_down(connection: Connection, preferred: str | None, words: dict[str, Any]) -> str:
    system = System(connection)
    try:
        # Who may not ask the system account is told so before anything is asked of him.
        await system.client()
        found = await read_meta(system)
        where = f" to {preferred}" if preferred else ""
        question = f"this will step down {found.leader or 'nobody'} from {found.cluster}{where}"
        confirmed = words["confirm"]
        if connection.production:
            confirmed = await asyncio.to_thread(
                confirmation, connection, found.cluster, clean_line(question),
                yes=words["yes"], confirm=confirmed,
            )  # fmt: skip
        writer = Writer(await system.client(), Journal())
        return await step_down_meta(writer, system, StepDown(found, preferred, confirmed))
    finally:
        await system.close()


@meta.command("peer-remove")
@click.argument("node", metavar="SERVER")
@change_flags
@connection_options
def peer_remove(connection: Connection, node: str, **words: Any) -> None:
    """Remove a lost server from the meta group.

    SERVER is one that will not come back. Only the system account may. What had a copy there
    gets another one elsewhere, as far as there are servers. A server that replies is not
    removed. SERVER may come back only with an empty store.
    """
    refuse_read_only(connection, words["read_only"])
    click.echo(clean_line(asyncio.run(_peer_remove(connection, node, words))))


async def _peer_remove(connection: Connection, server: str, words: dict[str, Any]) -> str:
    system = System(connection)
    try:
        meta = await meta_without(await system.client(), system, server)
        question = clean_line(removal_question(meta, server))
        confirmed = await asyncio.to_thread(
            confirmation, connection, server, question, yes=words["yes"], confirm=words["confirm"]
        )
        writer = Writer(await system.client(), Journal())
        return await remove_server(writer, system, RemoveServer(0, server, confirmed))
    finally:
        await system.close()
