"""`natstui messages …`: messages of a stream sent elsewhere."""
