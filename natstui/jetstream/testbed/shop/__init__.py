"""The shop of `natstui demo`: streams, consumers and traffic in every state a monitor must show.

`process` is the program, which runs `traffic`. `cli.demo` starts it.
"""
