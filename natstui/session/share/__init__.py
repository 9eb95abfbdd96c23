"""A recording for others: export, pack, pseudonyms, verification and the format's description.

`export`, `pack`, `verify` and `format` are commands of `natstui`; `tables`, `redact` serve them.
"""
