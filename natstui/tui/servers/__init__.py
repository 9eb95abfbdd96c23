"""The server screen: connection, account, permissions, what monitoring costs."""
