from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from natstui.config import Connection, Secret
from natstui.config.load import load
from natstui.config.resolve import ConnectionNames, context_connection, resolve
from natstui.config.servers import parse_server
from natstui.errors import UsageError
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import ClusterAccount

DEFAULT = ("nats://127.0.0.1:4222",)


class Desk:
    """A user's files: config.toml and the NATS CLI's contexts."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config.toml"
        self.nats = folder / "nats"
        self.file.touch()
        (self.nats / "context").mkdir(parents=True)

    def context(self, name: str, *, selected: bool = False, **fields: Any) -> None:
        (self.nats / "context" / f"{name}.json").write_text(json.dumps(fields))
        if selected:
            (self.nats / "context.txt").write_text(name)

    def connection(self, **named: str) -> Connection:
        return resolve(load(self.file), ConnectionNames(**named)).connection

    def origin(self, setting: str, **named: str) -> str:
        return resolve(load(self.file), ConnectionNames(**named)).layer[setting][1]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return Desk(tmp_path)


@pytest.fixture
def only_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know only addresses and this machine's name: no server is asked for others."""
    resolve_at_once = socket.getaddrinfo

    def resolve(host: str, *words: Any, **more: Any) -> list[Any]:
        if host != "localhost" and ":" not in host and re.search("[a-z]", host):
            raise socket.gaierror(socket.EAI_NONAME, host)
        return resolve_at_once(host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_without_anything_the_local_server_is_meant(desk: Desk) -> None:
    connection = desk.connection()
    assert connection == Connection()
    assert connection.servers == DEFAULT


def test_the_selected_context_counts_when_nothing_else_names_a_target(desk: Desk) -> None:
    desk.context("prod", selected=True, url="nats://a, nats://b", user="u", password="p")
    connection = desk.connection()
    assert connection.servers == ("nats://a:4222", "nats://b:4222")
    assert (connection.user, connection.password) == ("u", Secret("p"))
    assert connection.label == "prod"
    assert desk.origin("context") == "selected in the NATS CLI"
    assert desk.origin("server") == "context prod"


def test_the_password_of_the_selected_context_does_not_go_to_a_typed_server(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.context("prod", selected=True, url="nats://a", user="u", password="p")
    connection = desk.connection(server="nats://other")
    assert (connection.servers, connection.user) == (("nats://other:4222",), None)
    monkeypatch.setenv("NATS_URL", "nats://variable")
    connection = desk.connection()
    assert (connection.servers, connection.user) == (("nats://variable:4222",), None)


@pytest.mark.parametrize("variable", ["NATS_URL", "NATSTUI_CONNECTION_SERVER"])
def test_a_named_system_is_not_exchanged_for_the_server_of_a_variable(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    desk.context("eu", url="nats://a")
    desk.file.write_text(
        "[profiles.lab]\nserver = 'nats://b'\n[profiles.dark]\nread_only = true\n"
    )
    monkeypatch.setenv(variable, "nats://variable")
    for names in ({"context": "eu"}, {"profile": "lab"}):
        (name,) = names.values()
        with pytest.raises(UsageError, match=f"{variable} is set, .* another server than {name}"):
            desk.connection(**names)
        assert desk.connection(**names, server="nats://typed").servers == ("nats://typed:4222",)
    assert desk.connection(profile="dark").servers == ("nats://variable:4222",)
    monkeypatch.setenv(variable, "nats://b")
    assert desk.connection(profile="lab").servers == ("nats://b:4222",)


def test_the_password_of_the_file_does_not_go_to_a_typed_server(desk: Desk) -> None:
    desk.file.write_text("[connection]\nserver = 'nats://a'\nuser = 'u'\npassword = 'p'\n")
    assert desk.connection().user == "u"
    assert desk.connection(server="nats://other").user is None


def test_a_named_context_keeps_its_user_at_a_typed_server(desk: Desk) -> None:
    desk.context("prod", url="nats://a", user="u", password="p")
    connection = desk.connection(context="prod", server="nats://other")
    assert (connection.servers, connection.user) == (("nats://other:4222",), "u")


def test_a_profile_lies_over_its_context(desk: Desk) -> None:
    desk.context("prod", url="nats://a", user="u", password="p", tls_first=True)
    desk.file.write_text(
        "[profiles.shop]\ncontext = 'prod'\nread_only = true\nproduction = true\n"
        "colour = 'red'\nlabel = 'Shop EU'\nuser = 'viewer'\npassword = 'q'\n"
    )
    connection = desk.connection(profile="shop")
    assert connection.servers == ("nats://a:4222",)
    assert (connection.user, connection.password) == ("viewer", Secret("q"))
    assert (connection.read_only, connection.production) == (True, True)
    assert (connection.colour, connection.label) == ("red", "Shop EU")
    assert connection.tls_first is True
    assert connection.target == "Shop EU · a:4222"


def test_a_flag_makes_any_target_read_only(desk: Desk) -> None:
    desk.context("prod", url="nats://a")
    desk.file.write_text("[connection]\nserver = 'nats://x'\nread_only = false\n")
    loaded = load(desk.file, {"connection": {"read_only": True}})
    for named in (
        ConnectionNames(),
        ConnectionNames(context="prod"),
        ConnectionNames(server="nats://b"),
    ):
        assert resolve(loaded, named).connection.read_only is True


def test_a_file_that_says_read_only_means_every_target_but_a_profile_that_says_no(
    desk: Desk,
) -> None:
    desk.context("prod", url="nats://a")
    desk.file.write_text(
        "[connection]\nserver = 'nats://x'\nread_only = true\n[profiles.free]\nread_only = false\n"
    )
    assert desk.connection(context="prod").read_only is True
    assert desk.connection(server="nats://b").read_only is True
    assert desk.connection(profile="free").read_only is False


def test_the_file_may_name_the_profile_or_context_to_begin_with(desk: Desk) -> None:
    desk.context("prod", url="nats://a")
    desk.file.write_text("[connection]\nprofile = 'x'\n[profiles.x]\nserver = 'nats://x'\n")
    assert desk.connection().servers == ("nats://x:4222",)
    desk.file.write_text("[connection]\ncontext = 'prod'\ninbox_prefix = '_I'\n")
    connection = desk.connection()
    assert (connection.servers, connection.inbox_prefix) == (("nats://a:4222",), "_I")


def test_the_variables_of_the_nats_cli_win_over_a_context_and_ours_over_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.context("prod", url="nats://a", creds="/x.creds")
    monkeypatch.setenv("NATS_CONTEXT", "prod")
    assert desk.connection().creds_file == "/x.creds"
    monkeypatch.setenv("NATS_USER", "u")
    monkeypatch.setenv("NATS_PASSWORD", "p")
    monkeypatch.setenv("NATS_TIMEOUT", "7s")
    connection = desk.connection()
    assert (connection.user, connection.creds_file) == ("u", None)
    assert connection.request_timeout_s == 7.0
    monkeypatch.setenv("NATSTUI_CONNECTION_USER", "v")
    assert desk.connection().user == "v"
    assert desk.origin("user") == "NATSTUI_CONNECTION_USER"
    assert desk.origin("password") == "NATS_PASSWORD"


def test_a_user_without_a_password_is_a_token_as_in_the_nats_cli(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_USER", "t")
    connection = desk.connection()
    assert (connection.user, connection.token) == (None, Secret("t"))


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("NATS_TOKEN", "t", "token", Secret("t")),
        ("NATS_CREDS", "$XDG_CONFIG_HOME/u.creds", "creds_file", "HOME/u.creds"),
        ("NATS_NKEY", "/u.nk", "nkey_file", "/u.nk"),
        ("NATS_JWT", "j", "user_jwt", Secret("j")),
        ("NATS_CA", "/ca.pem", "ca", "/ca.pem"),
        ("NATS_CERT", "/c.pem", "cert", "/c.pem"),
        ("NATS_KEY", "/k.pem", "key", "/k.pem"),
    ],
)
def test_each_variable_of_the_nats_cli_is_understood(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    field: str,
    expected: object,
) -> None:
    monkeypatch.setenv(variable, value)
    if isinstance(expected, str):
        expected = expected.replace("HOME", str(desk.file.parent))
    assert getattr(desk.connection(), field) == expected


def test_who_an_address_names_replaces_who_a_context_names(desk: Desk) -> None:
    desk.context("prod", url="nats://a", creds="/x.creds")
    connection = desk.connection(context="prod", server="nats://u:p@b")
    assert connection.creds_file is None
    assert (connection.user, connection.password) == ("u", Secret("p"))
    assert connection.target == "prod · b:4222"


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        ({"context": "a", "profile": "b"}, "use one of them"),
        ({"profile": "b"}, "has no profile 'b'; there is none at all"),
        ({"context": "b"}, "there is no NATS CLI context 'b'"),
        ({"server": "http://x"}, "an address starts with nats://, tls://, ws:// or wss://"),
        ({"server": "nats://u:p@:4"}, "names no host"),
        ({"server": "nats://u:p@x:99999"}, "is not valid"),
    ],
)
def test_what_makes_no_sense_is_refused(desk: Desk, named: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        desk.connection(**named)
    assert complaint in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_the_nats_cli_s_proxy_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_SOCKS_PROXY", "socks5://x")
    with pytest.raises(UsageError, match="natstui has no SOCKS proxy"):
        desk.connection()


def test_a_connection_survives_the_pipe_and_shows_no_secret(desk: Desk) -> None:
    desk.context("prod", url="nats://u:very-secret@a,b")
    connection = desk.connection(context="prod")
    assert Connection.from_json_line(connection.to_json_line()) == connection
    assert "very-secret" not in repr(connection)
    assert connection.target == "prod · a:4222 (+1)"


@pytest.mark.server
async def test_a_context_with_a_dead_first_server_connects(
    desk: Desk, nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = nats_server_factory('authorization { user: ann, password: "p:w" }')
    monkeypatch.setenv("ANN", "p:w")
    desk.context(
        "shop",
        selected=True,
        url=f"nats://127.0.0.1:1,{broker.url}",
        user="ann",
        password="env://ANN",
    )
    client = await connect(desk.connection())
    assert client.link.user == "ann"
    await client.close()


@pytest.mark.usefixtures("only_own_names")
def test_a_system_that_a_profile_marks_as_production_is_that_whatever_names_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.context("prod", url="nats://p1, nats://p2")
    desk.context("other", url="nats://other")
    desk.file.write_text(
        "[profiles.live]\ncontext = 'prod'\nproduction = true\n"
        "[profiles.edge]\nserver = 'nats://e1, nats://e2'\nproduction = true\n"
        "[profiles.lab]\nserver = 'nats://lab'\n"
        "[profiles.spare]\ncontext = 'prod'\nproduction = false\n"
        "[profiles.lost]\ncontext = 'nowhere'\nproduction = true\n"
        "[profiles.broken]\ncontext = 'broken'\nproduction = true\n"
    )
    path = str(desk.nats / "context" / "prod.json")
    assert desk.connection(profile="live").production
    for named in (
        {"context": "prod"}, {"context": path}, {"server": "nats://u:p@e2:4222"},
        {"server": "tls://p2"},
    ):  # fmt: skip
        assert desk.connection(**named).production, named
    assert desk.origin("production", context="prod") == "profile live"
    for name in ("prod", path):
        assert context_connection(load(desk.file), name).production
    desk.context("edge", url="e1")
    desk.context("broken", url=7)
    assert desk.connection(context="edge").production
    assert context_connection(load(desk.file), "edge").production
    for named in ({"context": "other"}, {"profile": "lab"}, {"server": "nats://other"}):
        assert not desk.connection(**named).production, named
    assert not context_connection(load(desk.file), "other").production
    # Who says otherwise of a name is believed.
    assert not desk.connection(profile="spare").production
    for variable in ("NATS_CONTEXT", "NATSTUI_CONNECTION_CONTEXT"):
        with monkeypatch.context() as environment:
            environment.setenv(variable, "prod")
            assert desk.connection().production, variable
    monkeypatch.setenv("NATS_URL", "nats://e1")
    assert desk.connection().production
    monkeypatch.setenv("NATSTUI_CONNECTION_PRODUCTION", "false")
    assert not desk.connection().production


@pytest.mark.usefixtures("only_own_names")
def test_a_mark_holds_for_its_system_under_every_name_of_its_host(desk: Desk) -> None:
    desk.context("local", url="nats://localhost")
    desk.file.write_text(
        "[profiles.kept]\nserver = 'nats://127.0.0.1:4222'\nread_only = true\n"
        "[profiles.live]\nserver = 'nats://localhost:4222'\nproduction = true\n"
        "[profiles.admin]\nserver = 'nats://127.0.0.1:4222'\nread_only = false\n"
        "[profiles.lost]\nserver = 'nats://nowhere.invalid:4222'\nproduction = true\n"
        "[connection]\nproduction = false\n"
    )
    named: dict[str, str]
    for named in (
        *({"server": host} for host in ("127.0.0.1", "localhost", "127.1", "tls://0.0.0.0",
                                        "[::1]", "[::ffff:127.0.0.1]")),
        {"context": "local"},
    ):  # fmt: skip
        connection = desk.connection(**named)
        assert (connection.read_only, connection.production) == (True, True), named
    assert desk.origin("read_only", server="localhost") == "profile kept"
    local = context_connection(load(desk.file), "local")
    assert (local.read_only, local.production) == (True, True)
    for server in ("127.0.0.1:4223", "192.0.2.7", "elsewhere.invalid"):
        connection = desk.connection(server=server)
        assert (connection.read_only, connection.production) == (False, False), server
    # Who says otherwise of a name is believed.
    admin = desk.connection(profile="admin")
    assert (admin.read_only, admin.production) == (False, True)


@pytest.mark.server
@pytest.mark.cluster
def test_a_mark_holds_at_every_server_of_the_cluster(
    desk: Desk, cluster_account: ClusterAccount, nats_server: Broker
) -> None:
    first, second = (parse_server(url) for url in cluster_account.server_urls[:2])
    desk.file.write_text(
        f"[profiles.live]\nserver = '{first.url}'\nproduction = true\nread_only = true\n"
        f"[profiles.open]\nserver = '{second.url}'\nread_only = false\n"
    )
    named: dict[str, str]
    for named in ({"server": second.url}, {"server": f"localhost:{second.port}"}):
        connection = desk.connection(**named)
        assert (connection.read_only, connection.production) == (True, True), named
    assert desk.origin("production", server=second.url) == "profile live"
    # Who says otherwise of a name is believed, and another system is another one.
    opened = desk.connection(profile="open")
    assert (opened.read_only, opened.production) == (False, True)
    other = desk.connection(server=nats_server.url)
    assert (other.read_only, other.production) == (False, False)


@pytest.mark.parametrize(
    "greeting", [b"", b"HTTP/1.1 200 OK\r\n", b"INFO {", b'INFO {"connect_urls":[7]}\r\n',
                 b'INFO {"connect_urls":["a b", ":x", "nats://127.0.0.1:9"]}\r\n'],
)  # fmt: skip
def test_a_greeting_that_is_none_marks_nothing(desk: Desk, greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        desk.file.write_text(
            f"[profiles.live]\nserver = 'nats://127.0.0.1:{port + 1}'\nproduction = true\n"
        )

        def greet() -> None:
            end, _ = listener.accept()
            with end:
                end.sendall(greeting)

        with ThreadPoolExecutor() as threads:
            greeted = threads.submit(greet)
            assert not desk.connection(server=f"127.0.0.1:{port}").production
            greeted.result()


def test_the_selected_context_is_production_where_a_profile_says_so(desk: Desk) -> None:
    desk.context("prod", selected=True, url="nats://p1")
    assert not desk.connection().production
    desk.file.write_text("[profiles.live]\ncontext = 'prod'\nproduction = true\n")
    assert desk.connection().production
