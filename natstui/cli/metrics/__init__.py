"""`natstui metrics`: state of the poller as OpenMetrics for Prometheus and Grafana.

`exposition` formats the text, `serving` serves it over HTTP, `command` has the command. `root`
names the command.
"""
