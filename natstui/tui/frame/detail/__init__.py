"""The details of a row as text and charts: on a screen of its own, or in a panel beside
its table.
"""
