"""The servers of a system: their state, leaders and replicas, and balancing of leaders.

May be imported by every package. Of the model, it imports `live`, `traffic` and
`findings.thresholds`.
"""
