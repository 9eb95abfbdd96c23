"""When each kind of finding holds, and what shows it: pure functions of what is known.

Import `consumers`, `streams`, `settings` and `account`; `look` is what they look at.
"""
