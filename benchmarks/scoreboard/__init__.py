"""Ours beside every other scheduler that is there, row by row, on one machine in one run."""
