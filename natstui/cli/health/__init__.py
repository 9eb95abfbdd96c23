"""`natstui health` and `natstui stuck`: findings as text, JSON, Nagios or OpenMetrics.

`reading` watches a server for a while, `report` selects the findings, `formats` formats them,
`command` has the commands. `root` names them.
"""
