"""transduce: the Transformer of "Attention Is All You Need", from text to subwords, training, search and BLEU."""

import os

# Idle OpenMP threads must sleep, not spin: two trainings side by side on two cores take ten times as
# long otherwise. The variable is read when torch is first imported, so it is set here, before that.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
