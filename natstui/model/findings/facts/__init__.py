"""Step one of a diagnosis: facts, the named evidence about one stream or consumer."""
