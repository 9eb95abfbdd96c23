"""`natstui kv …` and `natstui object …`: buckets and object stores."""
