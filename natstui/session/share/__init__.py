"""Sharing of a recording: export, pack, pseudonyms, verification and the description of the
format.

`export`, `pack`, `verify` and `format` are commands of `natstui`; they use `tables` and `redact`.
"""
