"""The recorder: a sink that never blocks, and a thread that writes to the disk.

Import `recorder.Recorder`; `seal` closes what a killed recorder left open.
"""
