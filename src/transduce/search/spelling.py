"""The different ways to split a text into subwords, and a stepper that restricts a search to these splits.

A model sometimes writes a translation with other subwords than the subword encoder would use for the same text:

    the text           ▁Spruchen
    as it is encoded   ▁Spr uchen
    as it was written  ▁Spr uch en
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState


class Spelling:
    """Finds the tokens that can spell a text, byte by byte; the token `end` may follow only after the whole text."""

    def __init__(self, subword_bytes: Sequence[bytes], end: int) -> None:
        self.subword_bytes, self.end = subword_bytes, end
        self._tokens: dict[bytes, list[int]] = defaultdict(list)
        for token, text in enumerate(subword_bytes):
            if text:
                self._tokens[text].append(token)
        self._longest = max(map(len, self._tokens))

    def text_of(self, tokens: Sequence[int]) -> bytes:
        """Concatenates the bytes of the tokens."""
        return b"".join(self.subword_bytes[token] for token in tokens)

    def followers(self, text: bytes, written: int) -> list[int]:
        """Returns the tokens that may follow after the first `written` bytes of a text."""
        if written == len(text):
            return [self.end]
        # Decoding removes the space before a text, so a split may lack it.
        starts = (0, 1) if not written and text.startswith(b" ") else (written,)
        return [
            token
            for start in starts
            for end in range(start + 1, min(start + self._longest, len(text)) + 1)
            for token in self._tokens.get(text[start:end], ())
        ]

    def written_after(self, text: bytes, written: int, token: int) -> int:
        """Returns how many bytes of a text have been written once `token` follows the first `written` bytes."""
        spelled = self.subword_bytes[token]
        lacks_space = bool(spelled) and not written and not text.startswith(spelled)
        return written + len(spelled) + lacks_space

    def rivals(self, tokens: Sequence[int]) -> list[list[int]]:
        """Returns, for each position, the tokens that a split of the same text may have there.

        The text before the position is split as in `tokens`. The last list is for the position of the EOS token.
        """
        text, written, rivals = self.text_of(tokens), 0, []
        for token in (*tokens, self.end):
            rivals.append(self.followers(text, written))
            written = self.written_after(text, written, token)
        return rivals


class SpelledState(NamedTuple):
    """The state of a `Spelled` stepper.

    It contains the inner state, the index of each row's sentence, and the number of bytes of the text that each row has
    written.
    """

    inner: StepperState
    sentences: Int[Tensor, " rows"]
    written: Int[Tensor, " rows"]

    def pick(self, rows: Int[Tensor, " rows"]) -> "SpelledState":
        """Returns the state of the chosen rows."""
        return SpelledState(self.inner.pick(rows), self.sentences[rows], self.written[rows])


class Spelled:
    """Wraps a stepper, and gives probability 0 to all tokens that do not spell the text of their sentence."""

    def __init__(self, inner: Stepper, spelling: Spelling, texts: Sequence[bytes]) -> None:
        self.inner, self.spelling, self.texts = inner, spelling, texts

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> SpelledState:
        """Starts the inner stepper, with no bytes written yet."""
        inner = self.inner.start(source, visible, max_length)
        sentences = torch.arange(len(source), device=source.device)
        return SpelledState(inner, sentences, torch.zeros_like(sentences))

    def step(
        self, tokens: Int[Tensor, "rows new"], state: SpelledState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], SpelledState]:
        """Returns the inner log-probabilities and the state after `tokens`.

        The log-probability of a token that contradicts the text is −∞.
        """
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        texts = [self.texts[sentence] for sentence in state.sentences.tolist()]
        counts = state.written.tolist()
        for column in tokens.T.tolist():
            counts = [self.spelling.written_after(*row) for row in zip(texts, counts, column, strict=True)]
        followers = list(map(self.spelling.followers, texts, counts))
        rows = state.written.new_tensor([row for row, tokens in enumerate(followers) for _ in tokens])
        columns = state.written.new_tensor([token for tokens in followers for token in tokens])
        spelled = log_probabilities[rows, -1, columns]
        log_probabilities[:, -1] = -math.inf
        log_probabilities[rows, -1, columns] = spelled
        return log_probabilities, SpelledState(inner, state.sentences, state.written.new_tensor(counts))
