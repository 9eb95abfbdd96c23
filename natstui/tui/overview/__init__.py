"""The first screen: findings, busiest streams and consumers, servers; built from other screens'
tables.
"""
