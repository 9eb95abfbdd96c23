"""Step two of a diagnosis: causes, each a few lines over facts, in order of precedence."""
