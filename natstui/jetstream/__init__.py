"""The server, seen from outside: connecting, asking, decoding, changing."""
