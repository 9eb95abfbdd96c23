"""Step two of a diagnosis: causes, which are conditions over facts, in order of precedence."""
