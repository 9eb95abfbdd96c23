"""What is known: frozen values and pure functions, standard library only."""
