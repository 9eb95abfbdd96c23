"""What is known: frozen values and pure functions, standard library only.

`assets` and `bench` hold values, `records` what happens and is asked, `live` the state they fold
into, `findings` what is wrong with it. Everybody imports the model; it imports nothing of ours
but `units`, `errors` and `clean`.
"""
