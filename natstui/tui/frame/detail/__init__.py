"""The details of a row as text and charts: on their own screen, or in a panel beside a table."""
