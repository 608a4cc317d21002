"""Documents: text with structure, inline tags and protected codes, which a translation keeps."""
