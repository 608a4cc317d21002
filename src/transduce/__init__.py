"""transduce: the Transformer of "Attention Is All You Need", from text to subwords, training, search and BLEU."""

import os

# Idle OpenMP threads may spin for some tens of microseconds, which bridges the gaps between the operations of a small
# model, and must sleep after that: by default they spin a hundred times as long, and two trainings side by side on two
# cores then take ten times as long. The variable is read when torch is first imported, so it is set before that.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")

__version__ = "0.1.0"
