"""End-to-end translation of text: translators, glossaries, word alignments and output formats."""
