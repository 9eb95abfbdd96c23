"""The servers of a system: their state, leaders and replicas, and balancing of leaders.

May be imported by every room. Knows only `live` of the model.
"""
