"""What every request handler uses: the request, the server's state, bodies and answers."""
