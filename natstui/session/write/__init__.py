"""The recorder: a sink that never blocks, and a thread that writes to the disk.

Import `recorder.Recorder`; `seal` seals the segments that a killed recorder left open.
"""
