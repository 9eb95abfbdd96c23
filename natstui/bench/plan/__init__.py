"""What shall be run: scenario files, short forms and changes to them, and their mistakes.

Pure; imports the model only.
"""
