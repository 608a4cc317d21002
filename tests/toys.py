"""Toy steppers with known distributions, a small real model, and the comparison of results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from transduce.model.attention import Attention
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model.translation_model import Vocabulary
from transduce.search.beam import Hypothesis
from transduce.search.stepper import SearchProblem, Stepper, forced_scores

PAD, BEGIN, END = 0, 1, 2
FIRST_TOKEN = 3
BANNED = (PAD, BEGIN)

History = tuple[int, ...]
# For histories of one length, without the begin symbol: the log-probability of each next token.
Table = Callable[[Sequence[History]], list[list[float]]]


def mix(left: Tensor, right: Tensor) -> Tensor:
    """Hashes two integers, element by element; multiplication wraps around."""
    mixture = left * 6364136223846793005 + right * 1442695040888963407 + 1013904223
    mixture = (mixture ^ (mixture >> 29)) * 2862933555777941757
    return mixture ^ (mixture >> 32)


@dataclass
class HashedState:
    """A key of the sentence and a key of the tokens, by row; a step or a pick consumes it, like a model's caches."""

    sentences: Tensor
    rows: Tensor
    max_length: int
    consumed: bool = False

    def pick(self, rows: Tensor) -> "HashedState":
        self.consume()
        return HashedState(self.sentences[rows], self.rows[rows], self.max_length)

    def consume(self) -> None:
        assert not self.consumed, "a state was used twice"
        self.consumed = True


class Hashed:
    """Log-probabilities from a hash of the sentence, the whole history and the token, in float64."""

    def __init__(self, vocabulary: int, seed: int = 1, peak: float = 1.5, end: float = 0.0) -> None:
        self.vocabulary, self.seed, self.peak, self.end = vocabulary, seed, peak, end
        self.shapes: list[tuple[int, int]] = []  # of every step: sentences and rows

    def start(self, source: Tensor, visible: Tensor, max_length: int) -> HashedState:
        keys = torch.full((len(source),), self.seed)
        for tokens, present in zip(source.T, visible.T, strict=True):
            keys = torch.where(present, mix(keys, tokens), keys)
        return HashedState(keys, torch.zeros_like(keys), max_length)

    def step(self, tokens: Tensor, state: HashedState) -> tuple[Tensor, HashedState]:
        state.consume()
        max_length = state.max_length - tokens.shape[1]
        assert max_length >= 0, "more tokens than max_length"
        self.shapes.append((len(state.sentences.unique()), len(tokens)))
        rows, steps = state.rows, []
        for column in tokens.T:
            rows = mix(rows, column)
            steps.append(self.distribution(mix(state.sentences, rows)))
        return torch.stack(steps, dim=1), HashedState(state.sentences, rows, max_length)

    def distribution(self, keys: Tensor) -> Tensor:
        """Returns log-probabilities [rows vocabulary]: Gumbel noise scaled by `peak`, plus `end` at the end symbol."""
        hashes = mix(keys.unsqueeze(1), torch.arange(self.vocabulary))
        uniform = (((hashes >> 9) & (2**52 - 1)).double() + 0.5) / 2**52
        logits = -self.peak * (-uniform.log()).log()
        logits[:, END] += self.end
        return logits.log_softmax(-1)


@dataclass
class ScriptedState:
    histories: list[History]

    def pick(self, rows: Tensor) -> "ScriptedState":
        return ScriptedState([self.histories[row] for row in rows.tolist()])


class Scripted:
    """Probabilities by history; a history that the script lacks has those of `otherwise`."""

    def __init__(self, script: dict[History, list[float]], otherwise: list[float]) -> None:
        self.script, self.otherwise = script, otherwise
        self.stepped: list[list[History]] = []  # of every step: the histories of its rows

    def start(self, source: Tensor, visible: Tensor, max_length: int) -> ScriptedState:
        return ScriptedState([()] * len(source))

    def step(self, tokens: Tensor, state: ScriptedState) -> tuple[Tensor, ScriptedState]:
        histories = [(*before, *row) for before, row in zip(state.histories, tokens.tolist(), strict=True)]
        self.stepped.append([history[1:] for history in histories])
        rows = [self.script.get(history, self.otherwise) for history in self.stepped[-1]]
        return torch.tensor(rows, dtype=torch.float64).log().unsqueeze(1), ScriptedState(histories)


def toy_problem(bounds: Sequence[int], seed: int = 1) -> SearchProblem:
    """Returns a sentence for each bound, of 1 to 4 tokens, padded with random tokens."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (len(bounds), 1), generator=generator)
    source = torch.randint(FIRST_TOKEN, 17, (len(bounds), 4), generator=generator)
    return SearchProblem(source, torch.arange(4) < lengths, torch.tensor(bounds), BEGIN, END, BANNED)


def subproblem(problem: SearchProblem, sentences: Sequence[int]) -> SearchProblem:
    """Returns the problem of these sentences, in this order."""
    numbers = list(sentences)
    parts = (problem.source[numbers], problem.visible[numbers], problem.bounds[numbers])
    return problem._replace(**dict(zip(("source", "visible", "bounds"), parts, strict=True)))


def table_of(stepper: Stepper, problem: SearchProblem, sentence: int) -> Table:
    """Returns the log-probabilities of a stepper for one sentence alone, every history from its beginning."""

    def look_up(histories: Sequence[History]) -> list[list[float]]:
        tokens = torch.tensor([(BEGIN, *history) for history in histories])
        source = problem.source[sentence, problem.visible[sentence]].unsqueeze(0)
        state = stepper.start(source, torch.ones_like(source, dtype=torch.bool), tokens.shape[1])
        state = state.pick(torch.zeros(len(tokens), dtype=torch.long))
        return stepper.step(tokens, state)[0][:, -1].tolist()

    return look_up


def forced_score(stepper: Stepper, problem: SearchProblem, sentence: int, tokens: list[int]) -> float:
    """Returns the log-probability of a translation by forced scoring; at its bound a translation has no end symbol."""
    alone = subproblem(problem, [sentence])
    out = [*tokens, END][: alone.max_length]
    target_in = torch.tensor([[BEGIN, *out[:-1]]])
    return float(forced_scores(stepper, alone.source, alone.visible, target_in, torch.tensor([out]), PAD).sum())


def small_model(seed: int, **change: object) -> TransformerModel:
    """Returns a Transformer in float64 with 8 target tokens, its weights large enough for peaked distributions."""
    torch.manual_seed(seed)
    values = {
        "d_model": 14,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "mixer": Attention(heads=3, d_k=5, d_v=6).as_dictionary(),
        "cross": Attention(heads=2, d_k=4, d_v=8).as_dictionary(),
        "feed_forward": FeedForward(d_ff=22).as_dictionary(),
        "embeddings": "separate",
        "readout": {"kind": "separate"},
    }
    spec = Transformer.model_validate({**values, **change})
    model = spec.build(Vocabulary(source=17, target=8)).double().eval().requires_grad_(False)
    for weight in model.parameters():
        weight.add_(torch.randn_like(weight), alpha=0.4)
    return model


def table_of_model(model: TransformerModel, problem: SearchProblem, sentence: int) -> Table:
    """Returns the log-probabilities of the model's forward pass, without steps, caches or other sentences."""

    def look_up(histories: Sequence[History]) -> list[list[float]]:
        tokens = torch.tensor([(BEGIN, *history) for history in histories])
        source = problem.source[sentence, problem.visible[sentence]].expand(len(tokens), -1)
        states = model(source, torch.ones_like(source, dtype=torch.bool), tokens).states
        return model.readout(states[:, -1]).tolist()

    return look_up


def assert_same(hypotheses: Sequence[Hypothesis], expected: Sequence[tuple[list[int], float, float]]) -> None:
    """Asserts the same tokens in the same order, with the same log-probabilities and scores."""
    assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for tokens, _, _ in expected]
    for index in (1, 2):
        assert [hypothesis[index] for hypothesis in hypotheses] == pytest.approx(
            [result[index] for result in expected], abs=1e-9
        )
