"""English: abstract sentences as Penn-style trees."""
