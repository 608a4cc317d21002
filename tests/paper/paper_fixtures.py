"""Models that train in a second, and results without a training."""

from transduce.paper.trials import TrialResult

ATTENTION = {"kind": "attention", "heads": 2, "d_k": 6, "d_v": 5}
TRANSFORMER = {
    "kind": "transformer",
    "d_model": 24,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "mixer": ATTENTION,
    "cross": ATTENTION,
    "feed_forward": {"kind": "feed_forward", "d_ff": 40},
    "dropout": 0.0,
}
MEMORY = {"kind": "memory_network", "d_model": 24, "hops": 2, "span": 4, "dropout": 0.0}


def make_result(trial="base-1", *, perplexity=5.0, bleu=20.0, **changes):
    """Returns a result of ten steps with these values."""
    values = {
        "trial": trial,
        "budget": "steps",
        "steps": 10,
        "minutes": None,
        "reason": "10 steps are done",
        "step": 10,
        "tokens": 1000,
        "seconds": 60.0,
        "parameters": 1234,
        "operations": 1e12,
        "perplexity": perplexity,
        "accuracy": 0.5,
        "score": bleu,
        "low": bleu - 1,
        "high": bleu + 1,
        "signature": "nrefs:1",
        "environment": {"device": "cpu", "threads": 1, "processor": "a processor"},
    }
    return TrialResult(**(values | changes))
