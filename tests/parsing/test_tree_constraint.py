"""The constraint of parsing: whatever a model prefers, every hypothesis is a tree over the words of its sentence."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toys import BANNED, BEGIN, END, Hashed, forced_score
from transduce.parsing.tree_constraint import MAX_OPEN_RUN, TreeConstraint, TreeRules
from transduce.parsing.tree_symbols import tree_of
from transduce.search.beam import CHECK_INTERVAL, Decoding, Hypothesis, beam_search
from transduce.search.greedy_and_sampling import Sampling, greedy_search, sample
from transduce.search.stepper import SearchProblem
from transduce.text.symbol_vocabulary import UNKNOWN, SymbolVocabulary
from transduce.text.tree_linearisation import MIN_EXTRA_LENGTH, InOrder, TopDown

SYMBOLS = SymbolVocabulary(sorted("(S )S (NP )NP NN VB ,".split()))
KINDS = [TopDown(), InOrder()]


def parses(
    linearisation: TopDown | InOrder, words: list[int], extra: list[int], seed: int, search: str
) -> list[list[Hypothesis]]:
    """Returns the hypotheses for sentences of `words` words each, from a model of random log-probabilities."""
    in_order = isinstance(linearisation, InOrder)
    counts, bounds = torch.tensor(words), torch.tensor(words) + 1 + torch.tensor(extra)
    source = torch.tensor([[number + 3] for number in range(len(words))])
    problem = SearchProblem(source, source != 0, bounds, BEGIN, END, BANNED)
    rules = TreeRules.of(SYMBOLS.symbols, UNKNOWN + 1, in_order=in_order)
    stepper = TreeConstraint(Hashed(SYMBOLS.size, seed, peak=3.0), rules, counts, bounds, END)
    if search == "greedy":
        return [[best] for best in greedy_search(stepper, problem)]
    if search == "sample":
        draws = torch.rand(len(words), problem.max_length, generator=torch.Generator().manual_seed(seed))
        return [[best] for best in sample(stepper, problem, Sampling(), draws.double())]
    return beam_search(stepper, problem, Decoding(beam=3, length_penalty=0.0), n_best=3)


@pytest.mark.parametrize("search", ["beam", "greedy", "sample"])
@pytest.mark.parametrize("linearisation", KINDS, ids=repr)
@given(
    sentences=st.lists(st.tuples(st.integers(1, 7), st.integers(MIN_EXTRA_LENGTH, 30)), min_size=1, max_size=4),
    seed=st.integers(0, 100),
)
def test_every_hypothesis_is_a_tree_over_the_words(
    linearisation: TopDown | InOrder, search: str, sentences: list[tuple[int, int]], seed: int
) -> None:
    words, extra = map(list, zip(*sentences, strict=True))
    for count, more, best in zip(words, extra, parses(linearisation, words, extra, seed, search), strict=True):
        assert best
        for hypothesis in best:
            (line,) = SYMBOLS.decode([hypothesis.tokens])
            tree_of(line.split(), ["word"] * count, linearisation)  # raises ValueError for anything else
            assert len(hypothesis.tokens) + 1 <= count + 1 + more


@pytest.mark.parametrize("linearisation", KINDS, ids=repr)
def test_chains_of_phrases_are_bounded(linearisation: TopDown | InOrder) -> None:
    """A model that loves to open phrases must stop after `MAX_OPEN_RUN`, long before its tokens run out."""

    class Opener(Hashed):
        def distribution(self, keys: torch.Tensor) -> torch.Tensor:
            preference = [100.0 if symbol.startswith("(") else 0.0 for symbol in SYMBOLS.symbols]
            if isinstance(linearisation, InOrder):  # where phrases are opened after being closed
                preference = [
                    50.0 if symbol.startswith(")") else value for value, symbol in zip(preference, SYMBOLS.symbols)
                ]
            return torch.tensor(preference).expand(len(keys), -1).log_softmax(-1).double()

    rules = TreeRules.of(SYMBOLS.symbols, UNKNOWN + 1, in_order=isinstance(linearisation, InOrder))
    counts, bounds, source = torch.tensor([2]), torch.tensor([300]), torch.tensor([[3]])
    stepper = TreeConstraint(Opener(SYMBOLS.size), rules, counts, bounds, END)
    (best,) = greedy_search(stepper, SearchProblem(source, source != 0, bounds, BEGIN, END, BANNED))
    symbols = SYMBOLS.decode([best.tokens])[0].split()
    assert sum(symbol.startswith("(") for symbol in symbols) in (MAX_OPEN_RUN, 2 * MAX_OPEN_RUN)


@pytest.mark.parametrize("linearisation", KINDS, ids=repr)
def test_allowed_symbols_are_exactly_those_that_some_tree_continues_with(linearisation: TopDown | InOrder) -> None:
    """Exhaustive: all prefixes of symbol sequences over two words, with room for one phrase more than needed."""
    tokens = range(UNKNOWN + 1, SYMBOLS.size)
    rules = TreeRules.of(SYMBOLS.symbols, UNKNOWN + 1, in_order=isinstance(linearisation, InOrder))
    bound, words = 7, ["a", "b"]

    def is_tree(prefix: tuple[int, ...]) -> bool:
        try:
            tree_of(SYMBOLS.decode([prefix])[0].split(), words, linearisation)
        except ValueError:
            return False
        return True

    def trees(prefix: tuple[int, ...]) -> set[tuple[int, ...]]:
        """Returns all trees that begin so, by trying all sequences within the bound."""
        found = {prefix} if is_tree(prefix) else set()
        if len(prefix) < bound - 1:
            for token in tokens:
                if is_viable((*prefix, token)):
                    found |= trees((*prefix, token))
        return found

    def is_viable(prefix: tuple[int, ...]) -> bool:
        symbols = [SYMBOLS.symbols[token] for token in prefix]
        closes = sum(symbol.startswith(")") for symbol in symbols)
        opens = sum(symbol.startswith("(") for symbol in symbols)
        return len(symbols) - opens - closes <= len(words) and closes <= opens

    every_tree = trees(())
    prefixes = {tree[:length] for tree in every_tree for length in range(len(tree) + 1)}
    source, bounds = torch.tensor([[3]]), torch.tensor([bound])
    for prefix in sorted(prefixes):
        stepper = TreeConstraint(Hashed(SYMBOLS.size), rules, torch.tensor([len(words)]), bounds, END)
        state = stepper.start(source, source != 0, bound)
        log_probabilities, _ = stepper.step(torch.tensor([[BEGIN, *prefix]]), state)
        allowed = {token for token in range(SYMBOLS.size) if log_probabilities[0, -1, token].isfinite()}
        longer = [tree for tree in every_tree if len(tree) > len(prefix) and tree[: len(prefix)] == prefix]
        continued = {tree[len(prefix)] for tree in longer}
        assert allowed == continued | ({END} if prefix in every_tree else set()), SYMBOLS.decode([prefix])


def test_allowed_symbols_keep_their_log_probability() -> None:
    ((best, *_),) = parses(TopDown(), [3], [9], 5, "beam")
    source = torch.tensor([[3]])
    problem = SearchProblem(source, source != 0, torch.tensor([13]), BEGIN, END, BANNED)
    unconstrained = Hashed(SYMBOLS.size, 5, peak=3.0)
    assert best.log_probability == pytest.approx(forced_score(unconstrained, problem, 0, best.tokens), abs=1e-9)


@pytest.mark.no_shape_checks
@pytest.mark.parametrize("linearisation", KINDS, ids=repr)
def test_rows_of_dead_hypotheses_do_no_harm(linearisation: TopDown | InOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU such rows are stepped until the next check, with any tokens."""
    words, extra = [1, 5, 3], [6, 9, 4]
    for seed in range(40):
        expected = parses(linearisation, words, extra, seed, "beam")
        with monkeypatch.context() as patched:
            patched.setitem(CHECK_INTERVAL, "cpu", 8)
            assert parses(linearisation, words, extra, seed, "beam") == expected
