"""Decoding with any stepper: beam search (section 6.1), greedy search, sampling, and scoring of given translations."""
