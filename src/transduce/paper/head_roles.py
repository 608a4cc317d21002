"""Measures which word each attention head attends to (section 4, figures 3 to 5).

A head's answer for a word is the word to which it gives the largest weight. A role defines which answers are right, for
example the previous word; the right answers come from positions, gold trees or word alignments. The best head for a
role and the best fixed distance are selected on the even sentences and evaluated on the odd sentences, which are held
out so that taking a maximum over heads does not inflate the result.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.embedded import Example
from transduce.model_directory.model import Model
from transduce.paper.system_presets import read_data
from transduce.parsing.trees import Tree, parse_tree
from transduce.search.beam import Decoding
from transduce.translation.results import Explanation
from transduce.translation.translator import Translator

Floats = NDArray[np.float64]

HEAD_LABELS: dict[str, list[str]] = read_data("head_labels.yaml")
POSITIONS = {"previous word": -1, "same word": 0, "next word": 1}
GOVERNOR, ALIGNED = "governor", "aligned word"
DISTANCES, FEWEST = range(-9, 10), 20  # fixed distances; minimum number of cases of a role in each half


class Head(NamedTuple):
    """An attention head of a model; `layer` and `number` count from 0."""

    part: str  # encoder, decoder or cross
    layer: int
    number: int


class RoleShares(NamedTuple):
    """The shares of right answers for a role.

    The first value of each pair is measured on the selection sentences, and the second on the held-out sentences.
    """

    name: str  # for a relation, the labels of the part and of the phrase, for example "NP in VP"
    example: str  # a word and its right answer
    cases: tuple[int, int]
    chance: float  # share of a random word of the sentence
    distance: int  # the best fixed distance; for alignment, the distance from the diagonal
    fixed: tuple[float, float]  # shares of a head that always attends to the word at this distance
    heads: tuple[list[list[float]], list[list[float]]]  # by layer and head
    untrained: tuple[list[list[float]], list[list[float]]]  # likewise, of the model before training

    @property
    def best(self) -> Head:
        """The head with the largest share on the selection sentences."""
        layer, number = np.unravel_index(np.argmax(self.heads[0]), np.shape(self.heads[0]))
        return Head("cross" if self.name == ALIGNED else "encoder", int(layer), int(number))

    @property
    def share(self) -> float:
        """The share of the best head on the held-out sentences."""
        return self.heads[1][self.best.layer][self.best.number]

    @property
    def by_layer(self) -> list[float]:
        """The share of the best head of each layer, which is selected and evaluated in the same way."""
        return [reported[int(np.argmax(chosen))] for chosen, reported in zip(*self.heads, strict=True)]

    @property
    def before(self) -> "RoleShares":
        """The same role in the model before training."""
        return self._replace(heads=self.untrained)

    @property
    def gain(self) -> float:
        """The best head's share minus that of its best rival.

        The rivals are the best head before training and, unless the role itself is a distance, the best fixed distance.
        """
        return self.share - max(self.before.share, 0.0 if self.name in POSITIONS else self.fixed[1])

    @property
    def is_relation(self) -> bool:
        """True if the role is one of the relations in the trees."""
        return self.name not in (*POSITIONS, GOVERNOR, ALIGNED)

    @property
    def followers(self) -> set[tuple[int, int]]:
        """The (layer, head) indices of the heads whose share exceeds that of the best fixed distance in both halves."""
        is_better = np.array(self.heads) > np.array(self.fixed)[:, None, None]
        return {(int(layer), int(number)) for layer, number in np.argwhere(is_better.all(0))}


def governors(tree: Tree) -> dict[int, tuple[int, str]]:
    """Returns the governor of each word and the relation between them.

    The head of a phrase governs the heads of the phrase's other parts. Punctuation marks and the head of the whole tree
    have no governor.
    """
    words, governed = count(), {}

    def head_of(node: Tree) -> int:
        if node.is_preterminal:
            return next(words)
        parts = {head_of(child): child.label for child in node.children if isinstance(child, Tree)}
        head = next(word for label in HEAD_LABELS[node.label] for word in parts if parts[word] == label)
        for word, label in parts.items():
            if word != head and label[0].isalpha():
                governed[word] = (head, f"{label} in {node.label}")
        return head

    head_of(tree)
    return governed


def right_answers(example: Example) -> dict[str, list[tuple[int, int]]]:
    """Returns, for each role, the pairs of a word in the sentence and its right answer.

    An aligned word may have several right answers.
    """
    words, answers = range(len(example.source_tokens)), {}
    for name, step in POSITIONS.items():
        answers[name] = [(word, word + step) for word in words if word + step in words]
    for word, (governor, relation) in sorted(governors(parse_tree(example.tree)).items()):
        for name in (GOVERNOR, relation):
            answers.setdefault(name, []).append((word, governor))
    return {**answers, ALIGNED: [(target, source) for source, target in example.alignment]}


def words_of_subwords(subwords: Sequence[str], words: Sequence[str]) -> Floats:
    """Returns the share of each subword's characters that lies in each word [subwords, words + 1].

    The end symbol counts as an additional last word.
    """
    owners = [number for number, word in enumerate(words) for _ in word]
    sizes = np.array([len(subword.replace("▁", "")) for subword in subwords[:-1]])
    assert sizes.sum() == len(owners), f"{' '.join(subwords)} are not subwords of {' '.join(words)}"
    shares = np.zeros((len(subwords), len(words) + 1))
    np.add.at(shares, (np.arange(len(sizes)).repeat(sizes), np.array(owners)), 1 / sizes.repeat(sizes))
    shares[-1, -1] = 1.0
    return shares


def word_weights(explanation: Explanation, example: Example) -> tuple[Floats, Floats]:
    """Returns the weights of encoder self-attention and of cross-attention between words [layers heads queries keys+1].

    The weights of a word are the sums of the weights of its subwords.
    """
    keys = words_of_subwords(explanation.source, example.source_tokens)
    targets = words_of_subwords(explanation.target, example.target_tokens)
    encoder, cross = np.stack(explanation.encoder), np.stack(explanation.cross)
    return keys[:, :-1].T @ encoder @ keys, targets[:, :-1].T @ cross @ keys


def count_right(pairs: Sequence[tuple[int, int]], keys: int, answers: NDArray[np.int64]) -> Floats:
    """Counts the right answers for a role in a sentence of `keys` words.

    `answers` [... words] holds each head's answer for each word: the position of a word, or `keys` for the end symbol.
    Returns an array with the number of cases, the number of right answers that are expected by chance, and the numbers
    of right answers at each fixed distance and by each head.
    """
    right = np.zeros((answers.shape[-1], keys + 1), dtype=bool)
    right[tuple(np.transpose(pairs))] = True
    words = np.arange(len(right))
    diagonal = np.rint(np.linspace(0, keys - 1, len(words))).astype(int)  # within one sentence: the words themselves
    distant = [np.where((aim >= 0) & (aim < keys), aim, keys) for aim in (diagonal + step for step in DISTANCES)]
    counts = [right.any(1).sum(), right.sum() / keys, *(right[words, aim].sum() for aim in distant)]
    return np.concatenate([counts, right[words, answers].sum(-1).ravel()])


def alignment_error_rate(alignments: Iterable[tuple[set[tuple[int, int]], set[tuple[int, int]]]]) -> float:
    """Computes the alignment error rate of Och and Ney (2003) over all sentences.

    For links A and gold links G, the rate is 1 − 2 |A ∩ G| / (|A| + |G|).
    """
    both, sizes = np.sum([(len(links & gold), len(links) + len(gold)) for links, gold in alignments], axis=0)
    return float(1 - 2 * both / sizes)


def measure_roles(model: Model, examples: Sequence[Example], seed: int) -> tuple[list[RoleShares], list[float]]:
    """Measures the roles that are frequent in both halves, and the alignment error rate of each decoder layer.

    `seed` determines the weights of the untrained model, which serves as a baseline. To compute the alignment error
    rate, each target word is linked to the source word with the largest weight, averaged over the heads of the layer.
    """
    torch.manual_seed(seed)
    fresh = model.config.model.build(model.config.vocabulary).eval().to(next(model.module.parameters()).device)
    translators = [
        Translator.of_models([each], model.source, model.target, Decoding()) for each in (model.module, fresh)
    ]
    totals: dict[str, Floats] = {}
    of_roles: dict[str, str] = {}  # the first case of each role
    alignments = []
    for index, example in enumerate(examples):
        weights = [word_weights(each.explain(example.source, example.target), example) for each in translators]
        size = len(example.source_tokens)
        for name, pairs in right_answers(example).items():
            words = example.target_tokens if name == ALIGNED else example.source_tokens
            counts = count_right(pairs, size, np.stack([each[name == ALIGNED].argmax(-1) for each in weights]))
            totals.setdefault(name, np.zeros((2, len(counts))))[index % 2] += counts
            of_roles.setdefault(name, f"{words[pairs[0][0]]} → {example.source_tokens[pairs[0][1]]}")
        best, gold = weights[0][1].mean(1).argmax(-1), set(example.alignment)
        alignments.append(
            [({(int(key), n) for n, key in enumerate(of_layer) if key < size}, gold) for of_layer in best]
        )
    roles = [
        _shares(name, of_roles[name], counts, weights[0][name == ALIGNED].shape[:2])
        for name, counts in totals.items()
        if counts[:, 0].min() >= FEWEST
    ]
    roles.sort(key=lambda role: (role.name == ALIGNED, role.is_relation, -role.cases[1]))
    return roles, [alignment_error_rate(of_layer) for of_layer in zip(*alignments, strict=True)]


def _shares(name: str, example: str, counts: Floats, shape: tuple[int, ...]) -> RoleShares:
    """Divides the counts that `count_right` returns [2, counts] by the case counts; `shape` is (layers, heads)."""
    first = 2 + len(DISTANCES)
    shares, cases = np.round(counts / counts[:, :1], 4), counts[:, 0].astype(int).tolist()
    best = int(shares[0, 2:first].argmax())
    by_model = shares[:, first:].reshape(2, -1, *shape).swapaxes(0, 1).tolist()
    return RoleShares(
        name, example, cases, shares[1, 1].item(), DISTANCES[best], shares[:, 2 + best].tolist(), *by_model
    )
