"""Reads and writes descriptions of machines: cAdvisor JSON, sysfs, a one-line shape."""
