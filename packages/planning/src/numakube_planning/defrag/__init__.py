"""Plans to move pods: the fewest moves that let pods fit, or that make free devices usable."""
