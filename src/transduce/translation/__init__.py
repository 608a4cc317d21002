"""Text to text: translators, alignments, and the formats in which translations are written."""
