"""One module or package a process, and what all of them need to run, serve and be configured."""
