"""`natstui serve`: the screens in a browser of this machine."""
