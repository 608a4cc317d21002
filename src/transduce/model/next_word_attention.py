"""Deterministic attention for parsers (Ma et al. 2017), which shows the decoder the encoder output at the next word."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional


class SourceWords(NamedTuple):
    """The words of the source sentences, and how many of them the parser has already tagged.

    `vectors` and `begun` have one entry for each sentence, `tagged` has one for each row of the search. `begun` is the
    number of words that have begun up to each source token. `tagged` is the number of words whose part of speech the
    decoder has already written.
    """

    vectors: Float[Tensor, "batch source d_model"]
    begun: Int[Tensor, "batch source"]
    tagged: Int[Tensor, " rows"]

    def padded(self, length: int) -> "SourceWords":
        """Pads the sentences to `length` source tokens."""
        missing = length - self.begun.shape[1]
        # After the last token all words have begun.
        begun = torch.cat([self.begun, self.begun[:, -1:].expand(-1, missing)], 1)
        return self._replace(vectors=functional.pad(self.vectors, (0, 0, 0, missing)), begun=begun)

    def pick(self, rows: Int[Tensor, " rows"], sentences: Int[Tensor, " remaining"] | None = None) -> "SourceWords":
        """Selects the given rows and, if `sentences` is given, only these sentences."""
        if sentences is None:
            return self._replace(tagged=self.tagged[rows])
        return SourceWords(self.vectors[sentences], self.begun[sentences], self.tagged[rows])


class NextWord(nn.Module):
    """Computes the vector of the next word, which is added to each input of the decoder.

    This vector is the encoder output at the word's first token, multiplied by a matrix. Once the decoder has written n
    parts of speech, the next word is word n + 1; after the last word, nothing is added. `begins_word` flags the source
    tokens that begin a word, and `is_tag` flags the target tokens that are parts of speech.
    """

    begins_word: Tensor
    is_tag: Tensor

    def __init__(self, d_model: int, source_size: int, target_size: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("begins_word", torch.zeros(source_size, dtype=torch.bool), persistent=False)
        self.register_buffer("is_tag", torch.zeros(target_size, dtype=torch.bool), persistent=False)

    def set_flags(self, begins_word: Bool[Tensor, " source_size"], is_tag: Bool[Tensor, " target_size"]) -> None:
        """Sets the flags of the tokens.

        They can be computed from the vocabularies, so they are not saved with the weights.
        """
        device = self.project.weight.device
        self.begins_word, self.is_tag = begins_word.to(device), is_tag.to(device)

    def source_words(
        self, source: Int[Tensor, "batch source"], encoded: Float[Tensor, "batch source d_model"]
    ) -> SourceWords:
        """Returns the words of each sentence, with no part of speech written yet."""
        begun = self.begins_word[source].cumsum(1)
        return SourceWords(self.project(encoded), begun, begun.new_zeros(len(source)))

    def next_words(
        self, tokens: Int[Tensor, "rows new"], words: SourceWords, sentences: Int[Tensor, " rows"]
    ) -> tuple[Float[Tensor, "rows new d_model"], SourceWords]:
        """Returns the vector of the next word after each of `tokens`, and `words` with the tags in `tokens` counted.

        `sentences` holds the index of each row's sentence.
        """
        tagged = words.tagged.unsqueeze(1) + self.is_tag[tokens].cumsum(1)
        begun = words.begun[sentences]
        # The number of source tokens before the next word, or the number of all tokens if no word is left.
        places = (begun.unsqueeze(1) <= tagged.unsqueeze(2)).sum(2)
        is_left = places < begun.shape[1]
        vectors = words.vectors[sentences.unsqueeze(1), places.clamp(max=begun.shape[1] - 1)]
        return vectors * is_left.unsqueeze(2), words._replace(tagged=tagged[:, -1])
