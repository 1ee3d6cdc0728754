"""What every handler works with: the request, the state of the server, bodies and answers."""
