"""Answers requests about all servers and the system account."""

from __future__ import annotations

import asyncio
from typing import assert_never

from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.system.asking import ServerRequests
from natstui.jetstream.system.clients import read_clients
from natstui.jetstream.system.connections import read_connection, read_connections
from natstui.jetstream.system.kicking import kick
from natstui.jetstream.system.meta import remove_server
from natstui.jetstream.system.servers import read_servers
from natstui.jetstream.system.source import System
from natstui.model.clients.connection import busiest_connections
from natstui.model.records.system import (
    KickConnection,
    ReadClients,
    ReadConnection,
    ReadConnections,
    ReadServers,
    RemoveServer,
    StopReadingClients,
    SystemCommand,
)


class SystemCommands:
    """Queries all servers, and the system account where there is one; keeps both connections."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._system: System | None = None
        self._servers: ServerRequests | None = None
        self._stop_reading = asyncio.Event()

    def _of(self, client: Client) -> tuple[ServerRequests, System]:
        if self._servers is None or self._system is None or self._client is not client:
            self._client = client
            # It knows who answered before, and waits no longer for the next answers.
            self._servers = ServerRequests(client)
            self._system = System(client.connection, client)
        return self._servers, self._system

    async def answer(self, client: Client, command: SystemCommand) -> tuple[str, object]:
        """Return a sentence and the reply data; raises the request errors."""
        servers, system = self._of(client)
        match command:
            case ReadConnections():
                connections = await read_connections(
                    client, ServerRequests(client), closed=command.closed
                )
                return "connections of the account", busiest_connections(
                    connections, command.rows_count
                )
            case ReadConnection():
                connection_key = command.server_id, command.connection_id
                return "the connection", await read_connection(
                    client, ServerRequests(client), *connection_key
                )
            case ReadClients():
                # One at a time: each of them is read by the server once more.
                self._stop_reading.set()
                self._stop_reading = stop = asyncio.Event()
                return "who was found", await read_clients(client, command, stop)
            case StopReadingClients():
                self._stop_reading.set()
                return "natstui has stopped reading", None
            case ReadServers():
                return "the servers", await read_servers(servers, system)
            case KickConnection():
                return await kick(await self._writer(system), client, command), None
            case RemoveServer():
                return await remove_server(await self._writer(system), system, command), None
            case _:
                assert_never(command)

    async def _writer(self, system: System) -> Writer:
        return Writer(await system.client(), Journal())

    async def close(self) -> None:
        """Close the connections to the servers and the system account."""
        if self._system is not None:
            await self._system.close()
