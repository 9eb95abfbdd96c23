"""Analyses of recordings, table by table."""
