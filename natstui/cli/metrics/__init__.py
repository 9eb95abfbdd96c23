"""`natstui metrics`: what the poller sees, as OpenMetrics for Prometheus and Grafana.

`exposition` makes the text, `serving` answers scrapes, `command` joins them. `root` names the
command.
"""
