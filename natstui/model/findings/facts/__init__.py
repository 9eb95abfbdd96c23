"""Step one of a diagnosis: named evidence of one stream or consumer, each with its window."""
