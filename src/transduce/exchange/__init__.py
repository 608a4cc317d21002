"""Models for other engines and from them, with a comparison of the translations of both."""
