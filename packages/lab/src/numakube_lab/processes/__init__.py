"""Pods of numakube's own image, run as tasks of the lab's process."""
