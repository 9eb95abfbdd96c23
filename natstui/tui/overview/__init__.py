"""The overview screen: findings, servers, busiest streams, lagging consumers and events, with the
columns of other screens.
"""
