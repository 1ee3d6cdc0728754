"""Claims for people: written into pods by a command and a webhook, with the templates they need."""
