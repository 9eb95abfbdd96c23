"""Clients side by side: each pattern with natstui, nats-py and `nats bench`, in turns.

`rows` has the patterns, `rival` the other program, `measure` runs the rounds, `table` prints them.
"""
