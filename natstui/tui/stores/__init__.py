"""Key-value buckets and object stores: what they hold, how it changed, and changing it."""
