"""The screens in a browser of this machine."""
