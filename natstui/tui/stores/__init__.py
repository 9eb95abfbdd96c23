"""Key-value buckets and object stores: their keys and objects, history, and changes."""
