"""The answers as text, HTML page and JSON result.

Imports no pyspark but in `result`.
"""
