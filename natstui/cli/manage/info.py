"""`natstui stream info` and `natstui consumer info`: configuration, state and replicas."""

from __future__ import annotations

from typing import Any

import click

from natstui.clean import clean_json
from natstui.cli.complete import consumer_argument, stream_argument, stream_of_consumer_argument
from natstui.cli.connected import run_connected
from natstui.cli.manage.names import parse_name
from natstui.cli.options import connection_options, json_flag
from natstui.cli.sections import command
from natstui.cli.text_table import print_fields
from natstui.config import Connection
from natstui.jetstream.connection.decode.asset import ClusterRow, leader_of, peers_of
from natstui.jetstream.connection.decode.consumers import read_consumer
from natstui.jetstream.connection.decode.streams import read_stream
from natstui.model.assets.defaults import normalize_consumer, normalize_stream
from natstui.model.assets.differences import fields_of
from natstui.model.assets.fields import read
from natstui.model.assets.text import format_field
from natstui.model.servers.replicas import replica_text
from natstui.units import bytes_text


def _replica_texts(cluster: ClusterRow | None) -> dict[str, str]:
    """Return the lines about replicas by label: the leader, then the role and lag of each
    replica.
    """
    replicas = {
        f"Replica {peer.name}": replica_text(peer, peer.lag_msgs) for peer in peers_of(cluster)
    }
    return {"Leader": leader_of(cluster, None) or "none", **replicas}


@command("info")
@stream_argument
@json_flag
@connection_options
def stream_info(connection: Connection, name: str, as_json: bool, **_flags: Any) -> None:
    """Show a stream: configuration and state."""
    api_verb = f"STREAM.INFO.{parse_name(name)}"
    reply = run_connected(connection, lambda client: client.request(api_verb))
    if as_json:
        click.echo(clean_json(reply.decode()))
        return
    info = read_stream(reply)
    config, state = normalize_stream(info.read_config()), info.state
    values = {
        field.label: format_field(field, read(config, field.path)) for field in fields_of("stream")
    }
    shown_values = {label: text for label, text in values.items() if text not in ("", "no", "0")}
    shown_values |= {
        "Messages": f"{state.messages:,}",
        "Size": bytes_text(state.bytes),
        "Sequences": f"{state.first_seq}…{state.last_seq}",
        "Consumers": str(state.consumer_count),
    }
    print_fields(shown_values | _replica_texts(info.cluster))


@command("info")
@stream_of_consumer_argument
@consumer_argument
@json_flag
@connection_options
def consumer_info(
    connection: Connection, stream: str, name: str, as_json: bool, **_flags: Any
) -> None:
    """Show a consumer: configuration and state."""
    api_verb = f"CONSUMER.INFO.{parse_name(stream)}.{parse_name(name)}"
    reply = run_connected(connection, lambda client: client.request(api_verb))
    if as_json:
        click.echo(clean_json(reply.decode()))
        return
    info = read_consumer(reply)
    config = normalize_consumer(info.read_config())
    values = {
        field.label: format_field(field, read(config, field.path))
        for field in fields_of("consumer")
    }
    shown_values = {label: text for label, text in values.items() if text not in ("", "no", "0")}
    delivered = info.delivered
    shown_values |= {
        "Unprocessed": f"{info.num_pending:,}",
        "Ack pending": f"{info.num_ack_pending:,}",
        "Redelivered": f"{info.num_redelivered:,}",
        "Waiting pulls": str(info.num_waiting),
        "Delivered": f"{delivered.stream_seq} in {delivered.consumer_seq} deliveries",
        "Ack floor": str(info.ack_floor.stream_seq),
        "Paused": "yes" if info.paused else "no",
    }
    print_fields(shown_values | _replica_texts(info.cluster))
