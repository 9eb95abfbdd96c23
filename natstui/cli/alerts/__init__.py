"""`natstui alert`: findings to a command, a webhook, a subject or the bell.

`notices` decides what is told and when, `sending` tells it, `command` joins them. `root` names the
command; the rules are `[alerts.NAME]` of the settings.
"""
