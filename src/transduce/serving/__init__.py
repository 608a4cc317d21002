"""A translation server with LibreTranslate's HTTP API and an API of its own."""
