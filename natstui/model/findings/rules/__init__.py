"""Rules for findings that are not about a row: pure functions of the state.

Import `consumers`, `streams`, `settings` and `account`; `look` is what they look at.
"""
