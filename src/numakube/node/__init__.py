"""What a node offers to the programs on it: sysfs today."""
