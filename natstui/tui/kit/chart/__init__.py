"""Charts with axes, drawn by plotext.

Import `chart.Chart`.
"""
