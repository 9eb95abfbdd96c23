"""What screens share: live state, tables, details, forms, messages to the app.

Knows the kit and the model, no feature.
"""
