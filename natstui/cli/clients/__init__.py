"""Who is connected, who holds a consumer, who publishes to a stream: questions without a screen.

`root` names `connections`; `cli.manage` hangs the others below `consumer` and `stream`.
"""
