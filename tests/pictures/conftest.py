"""A record of attention with hostile words, whose layers, heads and lengths all differ."""

import numpy as np
import pytest

from transduce.translation.results import Explanation

SOURCE = ("▁The", "▁</script><b>", "▁paint", "ing", "▁$x$", '▁"', "▁שלום", "▁🙂", "</s>")
TARGET = ("▁Das", "▁Gemälde", "▁&amp;", "s", "▁$title", "</s>")


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def weights(seed: int, heads: int, looking: int, seen: int) -> np.ndarray:
    return softmax(3 * np.random.default_rng(seed).normal(size=(heads, looking, seen)))


@pytest.fixture
def explanation() -> Explanation:
    """Three encoder layers of 4, 5 and 4 heads; two decoder layers of 2 heads, of 3 where they look across."""
    source, target = len(SOURCE), len(TARGET)
    look_back = np.tril(np.ones((target, target)))
    backward = [weights(10 + layer, 2, target, target) * look_back for layer in range(2)]
    return Explanation(
        source=SOURCE,
        target=TARGET,
        source_text='The </script><b> painting $x$ " שלום 🙂',
        target_text="Das Gemälde &amp;s $title\x01",
        encoder=tuple(weights(layer, heads, source, source) for layer, heads in enumerate((4, 5, 4))),
        decoder=tuple((layer / layer.sum(axis=-1, keepdims=True)).astype(np.float32) for layer in backward),
        cross=tuple(weights(20 + layer, 3, target, source) for layer in range(2)),
    )
