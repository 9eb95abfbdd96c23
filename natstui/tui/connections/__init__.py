"""The connections screen: who is connected to which server, and those that ended."""
