"""JSON, YAML or text up to a megabyte, coloured only where it is in view."""
