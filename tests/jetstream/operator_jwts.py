"""An operator, its account and its users, signed here, as `nsc` would make them."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import nkeys
from msgspec import Struct

_UNLIMITED = dict.fromkeys(
    ("subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage"), -1
) | {"disk_storage": -1, "streams": -1, "consumer": -1, "wildcards": True}
_NO_JETSTREAM = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), 0)


class Signer(Struct, frozen=True):
    """A key pair and what it signs."""

    seed: str
    public: str

    @classmethod
    def make(cls, prefix: int) -> Signer:
        seed = nkeys.encode_seed(os.urandom(32), prefix)
        pair = nkeys.from_seed(bytearray(seed))
        return cls(bytes(seed).decode(), pair.public_key.decode())

    def sign(self, subject: str, nats: dict[str, Any], **claims: Any) -> str:
        """Return a JWT about `subject`."""
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        body = {
            "jti": os.urandom(16).hex().upper(),
            "iat": int(time.time()),
            "iss": self.public,
            "name": subject[:6],
            "sub": subject,
            "nats": nats | {"version": 2},
            **claims,
        }
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, body))
        pair = nkeys.from_seed(bytearray(self.seed.encode()))
        return f"{text}.{_base64(pair.sign(text.encode()))}"


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Operator:
    """One operator with one account that has JetStream."""

    def __init__(self) -> None:
        self.operator = Signer.make(nkeys.PREFIX_BYTE_OPERATOR)
        self.account = Signer.make(nkeys.PREFIX_BYTE_ACCOUNT)
        self.system = Signer.make(nkeys.PREFIX_BYTE_ACCOUNT)

    @property
    def server_config(self) -> str:
        """Return the part of a server's configuration that trusts this operator."""
        operator = self.operator.sign(
            self.operator.public, {"type": "operator", "system_account": self.system.public}
        )
        system = self.operator.sign(
            self.system.public, {"type": "account", "limits": _UNLIMITED | _NO_JETSTREAM}
        )
        account = self.operator.sign(
            self.account.public, {"type": "account", "limits": _UNLIMITED}
        )
        return (
            f"operator: {operator}\nresolver: MEMORY\nsystem_account: {self.system.public}\n"
            f"resolver_preload: {{ {self.account.public}: {account}\n"
            f"{self.system.public}: {system} }}\n"
        )

    def user(
        self, *, bearer: bool = False, of: Signer | None = None, **claims: Any
    ) -> tuple[str, str]:
        """Return the JWT and the seed of a new user, of the account with JetStream or another."""
        user = Signer.make(nkeys.PREFIX_BYTE_USER)
        nats = {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
        jwt = (of or self.account).sign(user.public, nats | {"bearer_token": bearer}, **claims)
        return jwt, user.seed


def write_creds(path: Path, jwt: str, seed: str, *, newline: str = "\n") -> Path:
    """Write a creds file as `nsc` decorates it."""
    lines = [
        "-----BEGIN NATS USER JWT-----",
        jwt,
        "------END NATS USER JWT------",
        "",
        "************************* IMPORTANT *************************",
        "NKEY Seed printed below can be used to sign and prove identity.",
        "",
        "-----BEGIN USER NKEY SEED-----",
        seed,
        "------END USER NKEY SEED------",
        "",
    ]
    path.write_bytes(newline.join(lines).encode())
    return path
