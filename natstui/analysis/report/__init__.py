"""The result of an analysis as text, notebook and HTML page. Imports no pyspark."""
