"""A recipe suggested from a corpus, a machine and a number of minutes: candidates, short runs, and a choice."""
