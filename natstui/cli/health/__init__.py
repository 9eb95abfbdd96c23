"""`natstui health` and `natstui stuck`: findings for pagers, pipelines and people.

`look` watches a server for a while, `report` chooses what is told, `formats` writes it, `command`
joins them. `root` names the commands.
"""
