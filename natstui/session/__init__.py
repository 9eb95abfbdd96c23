"""Recordings: the folder, its writer, its reader and the library of them."""
