"""Certificates of an authority of our own, as PEM files."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct


class Files(Struct, frozen=True):
    """PEM files of one authority: its own certificate, the server's and a client's pair."""

    ca: str
    server_cert: str
    server_key: str
    cert: str
    key: str
    elsewhere_cert: str
    elsewhere_key: str

    def server_config(self, more: str = "") -> str:
        return (
            f'tls {{ cert_file: "{self.server_cert}", key_file: "{self.server_key}", '
            f'ca_file: "{self.ca}", {more} }}\n'
        )


_NAMES = ("ca", "server", "server.key", "ann", "ann.key", "elsewhere", "elsewhere.key")


def make_files(folder: Path) -> Files:
    """Make an authority and what it signs."""
    folder.mkdir()
    authority = trustme.CA()
    files = Files(*(str(folder / name) for name in _NAMES))
    authority.cert_pem.write_to_path(files.ca)
    server = authority.issue_cert("127.0.0.1", "localhost")
    server.cert_chain_pems[0].write_to_path(files.server_cert)
    server.private_key_pem.write_to_path(files.server_key)
    client = authority.issue_cert("ann@example.org")
    client.cert_chain_pems[0].write_to_path(files.cert)
    client.private_key_pem.write_to_path(files.key)
    elsewhere = authority.issue_cert("elsewhere.example.org")
    elsewhere.cert_chain_pems[0].write_to_path(files.elsewhere_cert)
    elsewhere.private_key_pem.write_to_path(files.elsewhere_key)
    return files


def write_encrypted_key(path: Path, password: bytes) -> Path:
    """Write a key that needs a password."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
    )
    return path
