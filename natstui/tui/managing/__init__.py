"""Changes: actions with their question, the journal, raw configurations."""
