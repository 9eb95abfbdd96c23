"""The commands: each builds the parts it needs and joins them.

`root` names every command and imports it when it is run. Only `__main__` imports this room; it may
import every other one.
"""
