"""What a configuration means to people: a sentence, empty fields, room on a disk."""
