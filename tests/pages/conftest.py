"""An explanation with hostile subwords, whose layers, heads and lengths all differ."""

import numpy as np
import pytest

from transduce.translation.results import Explanation

SOURCE = ("▁The", "▁</script><b>", "▁paint", "ing", "▁$x$", '▁"', "▁שלום", "▁🙂", "</s>")
TARGET = ("▁Das", "▁Gemälde", "▁&amp;", "s", "▁$title", "</s>")


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def weights(seed: int, heads: int, queries: int, keys: int) -> np.ndarray:
    return softmax(3 * np.random.default_rng(seed).normal(size=(heads, queries, keys)))


@pytest.fixture
def explanation() -> Explanation:
    """Three encoder layers of 4, 5 and 4 heads; two decoder layers of 2 heads, and 3 heads of cross-attention."""
    source, target = len(SOURCE), len(TARGET)
    causal = np.tril(np.ones((target, target)))
    masked = [weights(10 + layer, 2, target, target) * causal for layer in range(2)]
    return Explanation(
        source=SOURCE,
        target=TARGET,
        source_text='The </script><b> painting $x$ " שלום 🙂',
        target_text="Das Gemälde &amp;s $title\x01",
        encoder=tuple(weights(layer, heads, source, source) for layer, heads in enumerate((4, 5, 4))),
        decoder=tuple((layer / layer.sum(axis=-1, keepdims=True)).astype(np.float32) for layer in masked),
        cross=tuple(weights(20 + layer, 3, target, source) for layer in range(2)),
    )
