"""The process that puts load on a server, and which program does which role's work.

Started by `run.worker_processes`; nobody imports it.
"""
