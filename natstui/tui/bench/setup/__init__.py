"""The benchmark form: converts a scenario file to fields and back.

`fields` has the fields, `document` reads and writes the file, `preview` describes the run.
"""
