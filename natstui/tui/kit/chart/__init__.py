"""Charts with axes: drawn by plotext in a process of its own.

Import `chart.Chart`.
"""
