"""`natstui health` and `natstui stuck`: findings for pagers, pipelines and people.

`look` watches a server for a while, `report` selects the findings, `formats` formats them,
`command` joins them. `root` names the commands.
"""
