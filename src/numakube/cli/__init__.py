"""The command line: one module for each command, what they share in `shared`, no logic.

Nothing is imported before it is needed: ``--help``, ``--version`` and shell completion answer
while the modules of the commands, and what those import, stay on disk.
"""
