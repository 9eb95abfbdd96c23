"""Scripted faults on a real server, and what natstui finds of them."""
