"""`natstui backup|restore` and `natstui stream backup|restore`: streams kept in a folder."""
