"""The data of natstui: frozen values and pure functions, standard library only.

`assets` and `bench` have values, `records` events and commands,
`live` the state into which records
fold, and `findings` the problems of that state. Every room may import the model; of natstui it
imports only `units`, `errors`, `clean` and `parsing`.
"""
