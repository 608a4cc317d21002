"""A translation service over HTTP: LibreTranslate's interface and one of our own."""
