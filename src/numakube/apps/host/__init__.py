"""What every long-running program needs: settings, a command line, logs, a server and an end."""
