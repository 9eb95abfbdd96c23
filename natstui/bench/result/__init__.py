"""Results: accounting, verdict, metrics, comparison, and the library of saved runs.

Pure but for `library` and `server_process`; imports `job` and the model.
"""
