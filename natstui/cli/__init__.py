"""The commands: each builds the parts it needs and joins them."""
