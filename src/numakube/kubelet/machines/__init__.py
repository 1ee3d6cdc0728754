"""Every way to write a machine down, and back: cAdvisor JSON, sysfs, a one-line shape. Pure."""
