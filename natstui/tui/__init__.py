"""The terminal: state in, text out, typed messages back."""
