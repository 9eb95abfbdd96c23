"""Records of events (`Record`) and commands (`Command`), with their parts by subject.

`record.py` lists all kinds of records and commands.
"""
