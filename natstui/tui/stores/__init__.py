"""Screens of key-value buckets and object stores: keys, objects, history, and changes."""
