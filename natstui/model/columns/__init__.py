"""The columns of each entity, the same on the screen and on the command line."""
