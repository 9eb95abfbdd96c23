"""The events screen: what happened, newest first."""
