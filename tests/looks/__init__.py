"""What every screen looks like, of one recording, in three sizes of the terminal."""
