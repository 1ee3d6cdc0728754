"""What every long-running program needs: settings, command line, logs, server, shutdown."""
