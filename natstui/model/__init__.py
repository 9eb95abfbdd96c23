"""The data of natstui: frozen values and pure functions, standard library only.

`assets` has configurations of streams and consumers, `bench` benchmarks, `records` events and
commands, `live` the state, which each record updates, and `findings` the problems of that state.
Every package of natstui may import the model, which imports only `units`, `errors`, `clean` and
`parsing` of natstui.
"""
