"""Rules for findings about the account, servers, clients, and names without a row.

Pure functions of the state and its `Memory`. `account` includes the rules of `servers` and
`rowless`.
"""
