"""From text to text: translators, alignments, and output formats."""
