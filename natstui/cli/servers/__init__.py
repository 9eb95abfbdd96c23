"""Commands on the servers of the system."""
