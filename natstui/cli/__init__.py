"""The commands: each builds the parts it needs and connects them.

`root` names every command and imports it when it is run. Only `__main__` imports this package,
which may import every other one.
"""
