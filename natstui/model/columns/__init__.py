"""What the columns of each entity are, once: screen and command line show these."""
