"""The scheduling queue: pods that wait for a node, and the events that wake them.

`entries.QueuedPod` is one of them with its history; `queue.SchedulingQueue` says whose turn it is.
"""
