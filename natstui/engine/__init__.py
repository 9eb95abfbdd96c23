"""The engine process: joins sources, recorder and stdout, obeys commands on stdin."""
