"""The parts of the app that have keys of their own, whatever screen is in view."""
