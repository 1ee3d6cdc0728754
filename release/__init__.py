"""What a release consists of, built from the tree as it is. ``make dist`` does it."""
