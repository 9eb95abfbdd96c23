"""What lies under a connection: sockets, with TLS or inside a WebSocket."""
