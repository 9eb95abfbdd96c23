"""The answers as text, notebook and HTML page. Imports no pyspark."""
