"""The events screen: newest events first."""
