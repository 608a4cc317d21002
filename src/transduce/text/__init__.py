"""Text processing: reads and normalises lines of text, and converts text to token ids and back."""
