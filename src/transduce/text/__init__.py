"""Text: strings in, ids out, and the same strings back."""
