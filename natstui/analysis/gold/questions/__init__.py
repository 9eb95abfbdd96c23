"""Questions asked of the other answers: when it is full, which hour, after what, and who."""
