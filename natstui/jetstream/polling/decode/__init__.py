"""Raw JSON of the JetStream API → rows, columns and configurations of the model.

A renamed field of the server is mended here.
"""
