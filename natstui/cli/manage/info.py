"""`natstui stream info` and `natstui consumer info`: configuration, state and replicas."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from natstui.clean import clean_json
from natstui.cli.complete import consumer_name, on_stream, stream_name
from natstui.cli.connected import run_connected
from natstui.cli.manage.names import given_name
from natstui.cli.options import as_json, connection_options
from natstui.cli.sections import command
from natstui.cli.text_table import print_fields
from natstui.config import Connection
from natstui.jetstream.connection.replies import read as read_reply
from natstui.jetstream.polling.decode.cluster import ClusterRow, peers_of
from natstui.model.assets.defaults import normal_consumer, normal_stream
from natstui.model.assets.differences import fields_of
from natstui.model.assets.fields import read
from natstui.model.assets.text import shown
from natstui.model.servers.replicas import replica_text
from natstui.units import bytes_text


class _Replicated(msgspec.Struct):
    """What a reply says of replicas."""

    cluster: ClusterRow | None = None


def _replicas(verb: str, reply: bytes) -> dict[str, str]:
    """Return the leader, then each replica: what it is, and how far it is behind."""
    cluster = read_reply(verb, reply, _Replicated).cluster
    replicas = {f"Replica {it.name}": replica_text(it, it.lag_msgs) for it in peers_of(cluster)}
    return {"Leader": (cluster.leader if cluster else "") or "none", **replicas}


@command("info")
@stream_name
@as_json
@connection_options
def stream_info(connection: Connection, name: str, as_json: bool, **_words: Any) -> None:
    """Show a stream: configuration and state."""
    verb = f"STREAM.INFO.{given_name(name)}"
    reply = run_connected(connection, lambda client: client.request(verb))
    if as_json:
        click.echo(clean_json(reply.decode()))
        return
    whole = json.loads(reply)
    config, state = normal_stream(whole["config"]), whole["state"]
    values = {field.label: shown(field, read(config, field.path)) for field in fields_of("stream")}
    shown_values = {label: text for label, text in values.items() if text not in ("", "no", "0")}
    shown_values |= {
        "Messages": f"{state['messages']:,}",
        "Size": bytes_text(state["bytes"]),
        "Sequences": f"{state['first_seq']}…{state['last_seq']}",
        "Consumers": str(state["consumer_count"]),
    }
    print_fields(shown_values | _replicas(verb, reply))


@command("info")
@on_stream
@consumer_name
@as_json
@connection_options
def consumer_info(
    connection: Connection, stream: str, name: str, as_json: bool, **_words: Any
) -> None:
    """Show a consumer: configuration and state."""
    verb = f"CONSUMER.INFO.{given_name(stream)}.{given_name(name)}"
    reply = run_connected(connection, lambda client: client.request(verb))
    if as_json:
        click.echo(clean_json(reply.decode()))
        return
    whole = json.loads(reply)
    config = normal_consumer(whole["config"])
    values = {
        field.label: shown(field, read(config, field.path)) for field in fields_of("consumer")
    }
    shown_values = {label: text for label, text in values.items() if text not in ("", "no", "0")}
    delivered, floor = whole["delivered"], whole["ack_floor"]
    shown_values |= {
        "Unprocessed": f"{whole['num_pending']:,}",
        "Ack pending": f"{whole['num_ack_pending']:,}",
        "Redelivered": f"{whole['num_redelivered']:,}",
        "Waiting pulls": str(whole["num_waiting"]),
        "Delivered": f"{delivered['stream_seq']} in {delivered['consumer_seq']} deliveries",
        "Ack floor": str(floor["stream_seq"]),
        "Paused": "yes" if whole.get("paused") else "no",
    }
    print_fields(shown_values | _replicas(verb, reply))
