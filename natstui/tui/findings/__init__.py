"""The findings screen: what is wrong now, worst first, since when, and what to do about it."""
