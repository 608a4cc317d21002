"""A parser that trains in seconds, on trees of a tiny grammar where the words decide the phrases."""

import random
import tempfile
from pathlib import Path

import pytest
import typer.testing

from transduce.commands import app

DETERMINERS, NOUNS, VERBS = "the a this".split(), "owl mole cat dog hen".split(), "saw met heard".split()

RECIPE = """
data:
  train: {trees: train.trees}
  validation: {trees: validation.trees, shortest: 4}
  test: {spare: {trees: test.trees}}
  linearisation: {kind: in_order}
  source_language: en
subwords: {kind: bpe, size: 300, shared: false}
model:
  preset: parser-small
  d_model: 32
  encoder_layers: 1
  decoder_layers: 1
  mixer: {heads: 2, d_k: 16, d_v: 16}
  cross: {heads: 2, d_k: 16, d_v: 16}
  feed_forward: {d_ff: 64}
  dropout: 0.0
training:
  steps: 120
  batch_tokens: 512
  precision: float32
  label_smoothing: 0.0
  schedule: {warmup: 20, peak: 0.01}
  validate_every: 60
  save_every: 60
  log_every: 20
  average: 1
decoding: {beam: 2}
"""


def noun_phrase(drawn: random.Random) -> str:
    return f"(NP (DT {drawn.choice(DETERMINERS)}) (NN {drawn.choice(NOUNS)}))"


def tree(drawn: random.Random) -> str:
    """A sentence; "with" attaches to the noun, "by" to the verb."""
    preposition = drawn.choice(["", "with", "by"])
    place, last = f"(PP (IN {preposition}) {noun_phrase(drawn)})", noun_phrase(drawn)
    last = {"": last, "with": f"(NP {last} {place})", "by": f"{last} {place}"}[preposition]
    return f"(S {noun_phrase(drawn)} (VP (VBD {drawn.choice(VERBS)}) {last}) (. .))"


def run(*arguments: object, given: str = "") -> typer.testing.Result:
    """Runs a command; its last argument is a file with the text `given`."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(given)
        file.flush()
        words = [*map(str, arguments), *([file.name] if given else [])]
        return typer.testing.CliRunner().invoke(app, words)


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with trees for training, validation and test, and a recipe."""
    folder = tmp_path_factory.mktemp("treebank")
    for name, count in (("train", 400), ("validation", 20), ("test", 40)):
        drawn = random.Random(name)
        (folder / f"{name}.trees").write_text("".join(f"{tree(drawn)}\n" for _ in range(count)))
    (folder / "trees.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="session")
def parser(treebank: Path) -> Path:
    """The run directory of a trained parser."""
    result = run("train", treebank / "trees.yaml", "--out", treebank / "run")
    assert result.exit_code == 0, (result.output, result.exception)
    return treebank / "run"
