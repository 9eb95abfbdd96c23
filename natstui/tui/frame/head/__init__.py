"""The two lines at the top of every screen, of one system or of several."""
