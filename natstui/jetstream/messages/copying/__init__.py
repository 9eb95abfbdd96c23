"""Messages copied elsewhere, each once, with an account of what became of every one."""
