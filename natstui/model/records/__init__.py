"""Records of events (`Record`) and commands (`Command`), with their parts by subject.

May be imported by every room. A new kind of record begins in `record.py`.
"""
