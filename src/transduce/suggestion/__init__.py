"""A recipe suggested from a corpus, a machine and a number of minutes: candidates, short trainings, and a choice."""
