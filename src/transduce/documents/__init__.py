"""Translation of documents: files with structure, and lines of several sentences. The core does not import it."""
