"""The parts of the app that have keys of their own, on every screen."""
