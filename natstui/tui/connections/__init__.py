"""The connections screen: open connections with their servers, and closed ones."""
