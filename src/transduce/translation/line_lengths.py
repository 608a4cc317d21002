"""Encodes lines that are short enough to translate, and says why a longer line is refused."""

from collections.abc import Iterator, Sequence

from transduce.model import TranslationModel
from transduce.model.attention import MultiHeadAttention
from transduce.text.token_vocabulary import TokenVocabulary

__all__ = ["MAX_LINE_TOKENS", "LineTooLargeError", "count_heads", "encode_lines"]

# Subwords of a line. The attention weights of a line grow with the square of its length: a model with eight heads has
# 0.5 GB of them here, twice in memory.
MAX_LINE_TOKENS = 4096

PORTION = 1 << 20  # characters of the lines encoded at once: the library needs some 240 bytes of memory for each


class LineTooLargeError(RuntimeError, MemoryError):
    """A line that does not fit into the memory alone; `fault` is the message without the number of the line."""

    def __init__(self, number: int, fault: str) -> None:
        super().__init__(f"line {number} {fault}")
        self.fault = fault


def count_heads(models: Sequence[TranslationModel]) -> int:
    """Returns the largest number of attention heads in `models`; 0 without attention."""
    attentions = (module for model in models for module in model.modules() if isinstance(module, MultiHeadAttention))
    return max((attention.spec.heads for attention in attentions), default=0)


def encode_lines(
    lines: Sequence[str], subwords: TokenVocabulary, max_tokens: int, heads: int, tags: Sequence[int] = ()
) -> list[list[int] | str]:
    """Returns `tags` and the tokens of each line; a line of more than `max_tokens` has a message instead.

    A line with too many characters for `max_tokens` subwords of any length is not encoded. The message names the memory
    that `heads` attention heads would need.
    """
    max_tokens -= 0 if max_tokens == MAX_LINE_TOKENS else len(tags)  # tags take positions, and no memory to speak of
    longest = max_tokens * subwords.max_subword_bytes
    encoded: list[list[int] | str] = []
    for portion in _portions(["" if len(line) > longest else line for line in lines]):
        encoded += [
            [*tags, *tokens]
            if len(tokens) <= max_tokens
            else _fault(f"{len(tokens):,} subwords", max_tokens, len(tokens), heads)
            for tokens in subwords.encode(portion)
        ]
    for place, line in enumerate(lines):
        if len(line) > longest:
            tokens = len(line) // subwords.max_subword_bytes
            encoded[place] = _fault(f"over {longest:,} characters, hence too many subwords", max_tokens, tokens, heads)
    return encoded


def _portions(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Splits lines into portions of at most `PORTION` characters; a line with more is a portion by itself."""
    start = size = 0
    for place, line in enumerate(lines):
        if size + len(line) > PORTION and place > start:
            yield lines[start:place]
            start, size = place, 0
        size += len(line)
    yield lines[start:]


def _fault(length: str, max_tokens: int, tokens: int, heads: int) -> str:
    """Returns the message for a line of `length`, which has at least `tokens` subwords."""
    if max_tokens != MAX_LINE_TOKENS:
        return (
            f"has {length}, and this model has learned positions for {max_tokens}; "
            "split the line, or train a model with more positions, or a Transformer with sinusoids"
        )
    # Scores and weights of attention in float32.
    memory = f", and would need {2 * 4 * heads * tokens**2 / 1e9:,.1f} GB of memory" if heads else ""
    return f"has {length}, more than {max_tokens:,}{memory}; split the line"
