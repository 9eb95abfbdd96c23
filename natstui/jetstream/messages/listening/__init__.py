"""Listening to core subjects: counted by subject in bounded memory, however much comes."""
