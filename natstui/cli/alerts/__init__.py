"""`natstui alert`: sends findings to a command, a webhook, a subject or the bell.

`notices` decides which findings are sent and when, `sending` sends them, `command` has the
command. `root` names the command; the rules are `[alerts.NAME]` of the settings.
"""
