"""A model and a metric of your own in a training of transduce; and a search engine of your own in a translator.

    python tests/outsider.py runs/outsider

The model is a mean of the source's embeddings and a recurrent decoder; the metric, by which the weights are selected,
counts first words that are right; the engine writes its input backwards.
"""

import sys
from pathlib import Path

import torch
from torch import nn

from transduce import Decoding, Recipe, Translator, train
from transduce.model.decoder_state import RecurrentState
from transduce.model.readout import Readout
from transduce.model.translation_model import TranslationModel
from transduce.model_directory.model import Model
from transduce.search.beam import Hypothesis

RECIPE = """
data: {train: [{embedded: validation}], validation: {embedded: novel}, source_language: en, target_language: de}
subwords: {kind: bpe, size: 400}
model: {kind: custom, name: MeanAndGru, d_model: 32}
training: {steps: 20, batch_tokens: 1024, schedule: {kind: constant, warmup: 5, peak: 0.03}, label_smoothing: 0.0,
           precision: float32, validate_every: 10, save_every: 10, average: null}
"""


class MeanAndGru(TranslationModel):
    def __init__(self, vocabulary, d_model=32):
        super().__init__()
        self.source = nn.Embedding(vocabulary.source, d_model)
        self.target = nn.Embedding(vocabulary.target, d_model)
        self.decoder = nn.GRU(2 * d_model, d_model, batch_first=True)
        nn.init.normal_(self.target.weight, std=0.1)
        self.readout = Readout(self.target.weight, pad=0)

    def start(self, source, visible, max_length):
        weights = visible[..., None].float()
        mean = (self.source(source) * weights).sum(1) / weights.sum(1)  # [batch, d_model]
        return RecurrentState.of(memory=(mean,), carried=(torch.zeros_like(mean),))

    def decode(self, tokens, state):
        means = state.memory[0][state.rows.sentences, None].expand(-1, tokens.shape[1], -1)
        embedded = torch.cat([self.target(tokens), means], -1)
        states, hidden = self.decoder(embedded, state.carried[0][None])  # [1, rows, d_model]
        return states, state._replace(carried=(hidden[0],))


def first_words(sources, translations, references):
    return sum(ours.split()[:1] == theirs.split()[:1] for ours, theirs in zip(translations, references, strict=True))


class Backwards:
    max_line_tokens = 100

    def search(self, batch, method, check):
        return [[Hypothesis(tokens[::-1], 0.0, 0.0)] for tokens in batch.sources]


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    (out / "mine.yaml").write_text(RECIPE, "utf-8")
    for record in train(
        Recipe.load(out / "mine.yaml"), out / "run", device="cpu", model=MeanAndGru, metric=first_words
    ):
        print(record.step, f"{record.loss:.2f}")
    model = Model.read(out / "run", build=MeanAndGru)
    mine = Translator.of_models([model.module], model.source, model.target, model.config.decoding)
    backwards = Translator(Backwards(), model.source, model.source, Decoding())
    return [translator.translate("the old dog sleeps") for translator in (mine, backwards)]


if __name__ == "__main__":
    print(*main(Path(sys.argv[1])), sep="\n")
