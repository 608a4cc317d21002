"""A translation service over HTTP, with LibreTranslate's interface and our own."""
