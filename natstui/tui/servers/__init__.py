"""The server screen: servers, connection, account, permissions and cost of monitoring."""
