"""A model of your own, trained and translated by transduce; and a search engine of your own in a translator.

    python tests/outsider.py runs/outsider

The model is a mean of the source's embeddings and a recurrent decoder; the engine writes its input backwards.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transduce import Decoding, Recipe, Translator, train
from transduce.embedded import split
from transduce.model.readout import Readout
from transduce.model.translation_model import Decoded, TranslationModel, Vocabulary
from transduce.model_directory.model import Model
from transduce.search.beam import Hypothesis

RECIPE = """
data: {train: [{embedded: validation}], validation: {tsv: FOLDER/few.tsv}, source_language: en, target_language: de}
subwords: {kind: bpe, size: 400}
model: {kind: custom, name: MeanAndGru, d_model: 32}
training:
  {steps: 20, batch_tokens: 1024, precision: float32, schedule: {kind: constant, warmup: 5, peak: 0.03},
   label_smoothing: 0.0, validate_every: 10, save_every: 10, average: null}
"""


class State(NamedTuple):
    mean: Tensor  # [rows, d_model]
    hidden: Tensor  # [1, rows, d_model]

    def pick(self, rows: Tensor) -> "State":
        return State(self.mean[rows], self.hidden[:, rows])


class MeanAndGru(TranslationModel):
    def __init__(self, vocabulary: Vocabulary, d_model: int = 32) -> None:
        super().__init__()
        self.source = nn.Embedding(vocabulary.source, d_model)
        self.target = nn.Embedding(vocabulary.target, d_model)
        self.decoder = nn.GRU(2 * d_model, d_model, batch_first=True)
        nn.init.normal_(self.target.weight, std=0.1)
        self.readout = Readout(self.target.weight, pad=0)

    def start(self, source: Tensor, visible: Tensor, max_length: int = 0) -> State:
        weights = visible[..., None].float()
        mean = (self.source(source) * weights).sum(1) / weights.sum(1)
        return State(mean, torch.zeros_like(mean)[None])

    def decode(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        means = state.mean[:, None].expand(-1, tokens.shape[1], -1)
        states, hidden = self.decoder(torch.cat([self.target(tokens), means], -1), state.hidden)
        return states, State(state.mean, hidden)

    def forward(self, source: Tensor, visible: Tensor, target_in: Tensor) -> Decoded:
        return Decoded(self.decode(target_in, self.start(source, visible))[0])

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        states, state = self.decode(tokens, state)
        return self.readout(states), state


class Backwards:
    max_line_tokens = 100

    def search(self, batch, method, check):
        return [[Hypothesis(tokens[::-1], 0.0, 0.0)] for tokens in batch.sources]


def main(out: Path) -> tuple[str, str]:
    out.mkdir(parents=True, exist_ok=True)
    few = [f"{example.source}\t{example.target}\n" for example in split("novel")[:20]]
    (out / "few.tsv").write_text("".join(few), "utf-8")
    (out / "mine.yaml").write_text(RECIPE.replace("FOLDER", str(out)), "utf-8")
    for record in train(Recipe.load(out / "mine.yaml"), out / "run", device="cpu", model=MeanAndGru):
        print(record.step, f"{record.loss:.2f}")
    model = Model.read(out / "run", build=MeanAndGru)
    mine = Translator.of_models([model.module], model.source, model.target, model.config.decoding)
    backwards = Translator(Backwards(), model.source, model.source, Decoding())
    return mine.translate("the old dog sleeps").text, backwards.translate("the old dog sleeps").text


if __name__ == "__main__":
    print(*main(Path(sys.argv[1])), sep="\n")
