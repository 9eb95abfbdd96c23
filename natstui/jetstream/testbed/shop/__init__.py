"""The shop of `natstui demo`: streams, consumers and traffic in every state a monitor must show.

`process` is the program; it imports `traffic`, which imports the rest. `cli.demo` starts it.
"""
