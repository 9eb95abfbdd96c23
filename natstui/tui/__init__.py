"""The terminal: state in, text out, typed messages back.

`app` composes features, features stand on `frame`, `frame` on `kit`; no feature knows another.
"""
