"""The commands of planning: what was asked, and how it is printed."""
