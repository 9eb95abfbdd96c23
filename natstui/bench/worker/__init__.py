"""The worker process that puts load on a server, and the programs of its roles.

Started by `run.worker_processes`; nothing imports it.
"""
