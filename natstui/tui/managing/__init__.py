"""Changes of the server: confirmation of actions, the journal, raw configurations."""
