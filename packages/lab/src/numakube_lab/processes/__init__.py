"""Pods of numakube's own image, run for real as tasks of the lab's process."""
