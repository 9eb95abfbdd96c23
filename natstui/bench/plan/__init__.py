"""Plans of benchmarks: scenario files, short forms, changes and validation.

Pure; imports the model only.
"""
