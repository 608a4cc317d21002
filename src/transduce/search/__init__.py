"""Search for translations over any stepper: beam search (section 6.1), greedy search, sampling, forced scoring, and
the constraint of parsers."""
