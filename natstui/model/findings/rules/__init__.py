"""Rules for findings about the account, servers, clients, and names without a row.

Pure functions of the state and of the data in `RuleMemory`. `account` includes the rules of
`servers` and `rowless`.
"""
