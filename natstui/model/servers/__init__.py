"""The servers of a system: what each does and holds, its leaders, and how to balance them.

May be imported by every room. Knows only `live` of the model.
"""
