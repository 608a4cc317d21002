"""A probabilistic context-free grammar read off trees, parsed with CKY in two passes: the baseline of parsing.

    python benchmarks/parsing/pcfg.py --train FILES --test FILES [--out trees.txt]
    python benchmarks/parsing/pcfg.py --train FILES --folds 5 [--out trees.txt]

Phrases are binarised from left to right and remember their parent and the last parts (Klein and Manning 2003). The
coarse pass computes with inside and outside sums how often each plain label is expected on each span; the fine pass
is Viterbi over the annotated symbols whose plain label is expected often enough (Charniak et al. 2006). The parser
sees words only and chooses the parts of speech itself.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from folds import read_cleaned, report_scores, train_and_test
from numpy.typing import NDArray

from transduce.parsing.trees import Tree, format_tree, preterminals

Numbers = NDArray[np.floating[Any]]
Rule = tuple["GrammarSymbol", tuple["GrammarSymbol", ...]]

# Expected counts below which the coarse pass prunes; where no tree is left, the next threshold is tried. Of 121
# sentences of up to 40 words, the first threshold changes the tree of 6 and takes a quarter of the time.
THRESHOLDS = (1e-4, 1e-7, 1e-12)
LARGEST_EXPONENT = 600.0  # of e, within the range of float64
RARE_WORD = 3  # a word seen at most so often teaches the tags of unknown words
# Weights of the less specific distribution, in occurrences: of a shorter ending, of a word's class, and of a tag
# without its parent. Chosen on the sentences of `Markovisation`, where F1 hardly depends on them.
ENDING_WEIGHT, CLASS_WEIGHT, PARENT_WEIGHT = 3.0, 1.0, 1.0


class Markovisation(NamedTuple):
    """What the symbols of a grammar remember.

    The defaults scored best of eight on every second sentence of fold 0 of the sample of the Wall Street Journal.
    """

    vertical: int = 2  # 1: nothing above; 2: phrases and parts of speech remember the parent's label
    horizontal: int = 2  # how many earlier parts the rest of a phrase remembers
    rare: int = 10  # a symbol seen less often than this remembers less


class GrammarSymbol(NamedTuple):
    """A phrase, a part of speech, or, with `before`, the rest of a phrase after the parts in `before`."""

    label: str
    parent: str = ""
    before: tuple[str, ...] | None = None

    @property
    def plain(self) -> GrammarSymbol:
        """The symbol without its memory, as the coarse pass uses it."""
        return GrammarSymbol(self.label, "", None if self.before is None else ())

    @property
    def shorter(self) -> GrammarSymbol:
        """The symbol with less memory: first earlier parts are forgotten, then the parent."""
        return self._replace(before=self.before[1:]) if self.before else self._replace(parent="")


class TaggedWord(NamedTuple):
    """A word of the training trees with its part of speech."""

    tag: GrammarSymbol
    word: str
    is_first: bool  # of its sentence


class Parsed(NamedTuple):
    """A tree over exactly the words of a sentence, and its log-probability; -inf of a flat tree, where none exists."""

    tree: Tree
    score: float


ROOT = GrammarSymbol("")


def rules_of(tree: Tree, parent: str, markovisation: Markovisation) -> Iterator[Rule]:
    """Yields the unary and binary rules of a tree from the top, without those of parts of speech."""
    if tree.is_preterminal:
        return
    children = [child for child in tree.children if isinstance(child, Tree)]
    above = tree.label if markovisation.vertical > 1 else ""
    parts = [GrammarSymbol(child.label, above) for child in children]
    symbol = GrammarSymbol(tree.label, parent)
    for position in range(len(parts) - 2):
        before = [part.label for part in parts[max(0, position + 1 - markovisation.horizontal) : position + 1]]
        rest = GrammarSymbol(tree.label, parent, tuple(before))
        yield symbol, (parts[position], rest)
        symbol = rest
    yield symbol, tuple(parts[-2:])
    for child in children:
        yield from rules_of(child, above, markovisation)


def tagged_words(tree: Tree, markovisation: Markovisation) -> list[TaggedWord]:
    """Returns the words of a tree with their parts of speech from left to right."""

    def tags(node: Tree, parent: str) -> Iterator[tuple[GrammarSymbol, str]]:
        for child in node.children:
            if isinstance(child, Tree):
                yield from tags(child, node.label if markovisation.vertical > 1 else "")
            else:
                yield GrammarSymbol(node.label, parent), child

    return [TaggedWord(tag, word, number == 0) for number, (tag, word) in enumerate(tags(tree, ""))]


def shorten_rare(
    counts: Mapping[GrammarSymbol, int], markovisation: Markovisation
) -> dict[GrammarSymbol, GrammarSymbol]:
    """Returns for each symbol itself, or the longest memory of it that is not rare."""
    chosen = {symbol: symbol for symbol in counts}
    for _ in range(markovisation.horizontal + 1):
        now: Counter[GrammarSymbol] = Counter()
        for symbol, shortened in chosen.items():
            now[shortened] += counts[symbol]
        for symbol, shortened in chosen.items():
            if now[shortened] < markovisation.rare:
                chosen[symbol] = shortened.shorter
    return chosen


def rename_symbols(counts: Mapping[Rule, int], names: Mapping[GrammarSymbol, GrammarSymbol]) -> Counter[Rule]:
    """Returns the counts of rules whose symbols have other names; rules that become equal are added up."""
    renamed: Counter[Rule] = Counter()
    for (parent, parts), count in counts.items():
        renamed[names[parent], tuple(names[part] for part in parts)] += count
    return renamed


def word_classes(word: str, is_first: bool) -> list[str]:
    """Returns the classes of a word from general to special: capitals, digits and hyphen, then longer endings."""
    shape = ""
    if word[:1].isupper():
        shape = "first" if is_first else "capitals" if word.isupper() and len(word) > 1 else "capital"
    elif any(letter.isupper() for letter in word):
        shape = "inner capital"
    if any(letter.isdigit() for letter in word):
        shape += " digits and letters" if any(letter.isalpha() for letter in word) else " digits"
    shape += " hyphen" if "-" in word else ""
    endings = [f"{shape} …{word[-length:].lower()}" for length in (1, 2, 3) if length < len(word)]
    return ["", shape, *(endings if word[-1:].isalpha() else [])]


class TagProbabilities:
    """P(tag | word) / P(tag), which is P(word | tag) but for a factor of the word, smoothed by the word's classes."""

    def __init__(self, words: Sequence[TaggedWord]) -> None:
        self.tags = sorted({word.tag for word in words}, key=repr)
        self.plain_tags = sorted({tag.plain for tag in self.tags}, key=repr)
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        self.plain_of = np.array([self.plain_tags.index(tag.plain) for tag in self.tags])
        self.counts: dict[str, Numbers] = defaultdict(lambda: np.zeros(len(self.tags)))
        for tag, word, _ in words:
            self.counts[word][numbers[tag]] += 1
        self.class_counts: dict[str, Numbers] = defaultdict(lambda: np.zeros(len(self.plain_tags)))
        for tag, word, is_first in words:
            if self.counts[word].sum() <= RARE_WORD:
                for name in word_classes(word, is_first):
                    self.class_counts[name][self.plain_of[numbers[tag]]] += 1
        self.prior = np.sum(list(self.counts.values()), axis=0) / len(words)
        self.plain_prior = self._plain(self.prior)
        self.parent_given_tag = self.prior / self.plain_prior[self.plain_of]

    def of(self, word: str, is_first: bool) -> tuple[Numbers, Numbers]:
        """Returns P(tag | word) / P(tag) for `plain_tags` and for `tags`."""
        if is_first and word not in self.counts and word.lower() in self.counts:
            word = word.lower()
        plain = np.full(len(self.plain_tags), 1 / len(self.plain_tags))
        for name in word_classes(word, is_first):
            if name in self.class_counts:
                plain = _smoothed(self.class_counts[name], plain, ENDING_WEIGHT)
        counts = self.counts.get(word, np.zeros(len(self.tags)))
        plain = _smoothed(self._plain(counts), plain, CLASS_WEIGHT)
        fine = _smoothed(counts, plain[self.plain_of] * self.parent_given_tag, PARENT_WEIGHT)
        return plain / self.plain_prior, fine / self.prior

    def _plain(self, values: Numbers) -> Numbers:
        """Returns the sums of values of tags over those with the same plain tag."""
        sums: Numbers = np.bincount(self.plain_of, values, len(self.plain_tags)).astype(np.float64)
        return sums


def _smoothed(counts: Numbers, general: Numbers, weight: float) -> Numbers:
    """Returns the distribution of counts to which `weight` occurrences of a more general distribution are added."""
    return (counts + weight * general) / (counts.sum() + weight)


class NumberedRules(NamedTuple):
    """Rules with probabilities, their symbols as numbers: `unary` has rows (a, b), `binary` rows (a, b, c)."""

    symbols: list[GrammarSymbol]
    unary: NDArray[np.intp]
    unary_probabilities: Numbers
    binary: NDArray[np.intp]
    binary_probabilities: Numbers


def number_rules(counts: Mapping[Rule, int]) -> NumberedRules:
    """Returns the relative frequencies of rules, sorted by parent."""
    symbols = sorted({symbol for parent, parts in counts for symbol in (parent, *parts)}, key=repr)
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    totals: Counter[GrammarSymbol] = Counter()
    for (parent, _), count in counts.items():
        totals[parent] += count
    rows = sorted(
        ((numbers[parent], *(numbers[part] for part in parts)), count / totals[parent])
        for (parent, parts), count in counts.items()
    )
    unary = [row for row in rows if len(row[0]) == 2]
    binary = [row for row in rows if len(row[0]) == 3]
    return NumberedRules(
        symbols,
        unary=np.array([rule for rule, _ in unary], dtype=np.intp).reshape(-1, 2),
        unary_probabilities=np.array([probability for _, probability in unary]),
        binary=np.array([rule for rule, _ in binary], dtype=np.intp).reshape(-1, 3),
        binary_probabilities=np.array([probability for _, probability in binary]),
    )


class CoarseGrammar:
    """The grammar of plain labels, of which only sums over all trees are computed."""

    def __init__(self, counts: Mapping[Rule, int]) -> None:
        self.rules = number_rules(counts)
        size = len(self.rules.symbols)
        unary = np.zeros((size, size))
        unary[tuple(self.rules.unary.T)] = self.rules.unary_probabilities
        # Sums over chains of every length, cycles included: 1 + U + U² + …
        self.closure = np.linalg.inv(np.eye(size) - unary)
        parents, left, right = self.rules.binary.T
        self.pairs, numbers = np.unique(left * size + right, return_inverse=True)
        self.pair_to_parent = np.zeros((len(self.pairs), size))
        self.pair_to_parent[numbers, parents] = self.rules.binary_probabilities
        self.root = self.rules.symbols.index(ROOT)

    def expected_counts(self, tags: Numbers) -> Numbers | None:
        """Returns how often each symbol stands on each span, [words + 1, words + 1, symbols]; None where no tree is.

        `tags` are P(word | symbol) up to a factor of the word, [words, symbols]. Span (i, j) covers words i to j - 1.
        """
        inside, scales = self._inside(tags)
        words = len(tags)
        if not inside[0, words, self.root] > 0:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # of spans that are of no tree; they are pruned
            return inside * self._outside(inside, scales)

    def _inside(self, tags: Numbers) -> tuple[Numbers, Numbers]:
        """Returns inside probabilities, each span scaled to a maximum of 1, and the logarithms of the scales."""
        words, size = tags.shape
        inside = np.zeros((words + 1, words + 1, size))
        scales = np.full((words + 1, words + 1), -np.inf)
        for width in range(1, words + 1):
            first = np.arange(words - width + 1)
            if width == 1:
                base, bottom = np.zeros(words), tags
            else:
                begin, middle, end = _diagonal(words, width)
                logarithms = scales[begin, middle] + scales[middle, end]
                base = np.maximum(logarithms.max(1), -1e300)  # finite where there is nothing
                left = inside[begin, middle] * np.exp(logarithms - base[:, None])[..., None]
                products = left.transpose(0, 2, 1) @ inside[middle, end]
                bottom = products.reshape(len(first), -1)[:, self.pairs] @ self.pair_to_parent
            top = bottom @ self.closure.T
            largest = top.max(1)
            some = largest > 0
            inside[first[some], first[some] + width] = top[some] / largest[some, None]
            scales[first[some], first[some] + width] = np.log(largest[some]) + base[some]
        return inside, scales

    def _outside(self, inside: Numbers, scales: Numbers) -> Numbers:
        """Returns outside probabilities, scaled so that times `inside` they are expected counts."""
        words, size = len(inside) - 1, inside.shape[-1]
        outside = np.zeros_like(inside)
        outside[0, words, self.root] = 1 / inside[0, words, self.root]
        for width in range(words, 0, -1):
            first = np.arange(words - width + 1)
            outside[first, first + width] @= self.closure
            if width == 1:
                break
            begin, middle, end = _diagonal(words, width)
            own = scales[first, first + width]
            logarithms = scales[begin, middle] + scales[middle, end] - np.where(own > -np.inf, own, np.inf)[:, None]
            factors = np.exp(np.minimum(logarithms, LARGEST_EXPONENT))[..., None]
            rules = np.zeros((len(first), size * size))
            rules[:, self.pairs] = outside[first, first + width] @ self.pair_to_parent.T
            rules = rules.reshape(-1, size, size)
            # The left parts of one width are all different spans, and so are the right parts: += counts each once.
            outside[begin, middle] += (inside[middle, end] * factors) @ rules.transpose(0, 2, 1)
            outside[middle, end] += (inside[begin, middle] * factors) @ rules
        return outside


def _diagonal(words: int, width: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Returns begin [spans, 1], middle [spans, splits] and end [spans, 1] of the spans of one width."""
    begin = np.arange(words - width + 1)[:, None]
    return begin, begin + np.arange(1, width), begin + width


class FineChart(NamedTuple):
    """Viterbi scores of the spans that are not pruned, before (`bottom`) and after (`top`) unary rules."""

    rows: NDArray[np.intp]  # [words + 1, words + 1]: the row of a span; 0, which has only -inf, where it is pruned
    bottom: Numbers  # [rows, symbols]
    top: Numbers  # [rows, symbols]


class FineGrammar:
    """The grammar of annotated symbols: scores are log-probabilities in float32."""

    def __init__(self, counts: Mapping[Rule, int], plain_numbers: Mapping[GrammarSymbol, int]) -> None:
        rules = number_rules(counts)
        self.symbols = rules.symbols
        self.plain_of = np.array([plain_numbers[symbol.plain] for symbol in self.symbols])
        self.root = self.symbols.index(ROOT)
        self.parents, self.left, self.right = np.ascontiguousarray(rules.binary.T)
        self.scores = np.log(rules.binary_probabilities).astype(np.float32)
        self.chains = close_unary(rules)
        rows = [(parent, child) for parent in sorted(self.chains) for child in self.chains[parent]]
        self.upper, self.lower = np.array(rows, dtype=np.intp).reshape(-1, 2).T
        self.chain_scores = np.array([self.chains[row[0]][row[1]][0] for row in rows], dtype=np.float32)

    def fill_chart(self, tags: Numbers, kept: NDArray[np.bool_]) -> FineChart:
        """Returns the chart of a sentence from `tags`, [words, symbols], and the plain symbols kept on each span."""
        size = tags.shape[1]
        rows = np.zeros(kept.shape[:2], dtype=np.intp)
        spans = sorted(
            zip(*(axis.tolist() for axis in np.nonzero(kept.any(-1))), strict=True), key=lambda span: span[1] - span[0]
        )
        bottom = np.full((len(spans) + 1, size), -np.inf, dtype=np.float32)
        chart = FineChart(rows, bottom, bottom.copy())
        for row, (begin, end) in enumerate(spans, start=1):
            rows[begin, end] = row
            live = kept[begin, end][self.plain_of]
            if end == begin + 1:
                bottom[row] = np.where(live, tags[begin], -np.inf)
            else:
                self._combine(chart, begin, end, live)
            chains = np.flatnonzero(live[self.upper])
            chart.top[row] = bottom[row]
            values = bottom[row, self.lower[chains]] + self.chain_scores[chains]
            _raise_to_maxima(chart.top[row], self.upper[chains], values)
        return chart

    def _combine(self, chart: FineChart, begin: int, end: int, live: NDArray[np.bool_]) -> None:
        """Writes the best scores of binary rules on a span into its row of `bottom`."""
        middle = np.arange(begin + 1, end)
        left_rows, right_rows = chart.rows[begin, middle], chart.rows[middle, end]
        both = (left_rows > 0) & (right_rows > 0)
        if not both.any():
            return
        left, right = chart.top[left_rows[both]], chart.top[right_rows[both]]
        can = live[self.parents] & (left.max(0) > -np.inf)[self.left] & (right.max(0) > -np.inf)[self.right]
        rules = np.flatnonzero(can)
        values = (left[:, self.left[rules]] + right[:, self.right[rules]]).max(0) + self.scores[rules]
        _raise_to_maxima(chart.bottom[chart.rows[begin, end]], self.parents[rules], values)

    def tree(self, chart: FineChart, words: Sequence[str]) -> Tree:
        """Returns the best tree of a sentence, without the root symbol."""
        (root,) = self._build(chart, words, 0, self.root)
        (tree,) = root.children
        assert isinstance(tree, Tree)
        return tree

    def _build(self, chart: FineChart, words: Sequence[str], begin: int, symbol: int) -> list[Tree]:
        """Returns the best tree of a symbol over all of `words`, which begin at word `begin`.

        The rest of a phrase gives several trees. The rules are found by computing their scores again, so that the chart
        need not remember them.
        """
        row = chart.rows[begin, begin + len(words)]
        chain = [symbol]
        if chart.top[row, symbol] > chart.bottom[row, symbol]:
            options = self.chains[symbol]
            end = max(options, key=lambda child: options[child][0] + chart.bottom[row, child])
            while chain[-1] != end:
                chain.append(self.chains[chain[-1]][end][1])
        nodes = self._build_bottom(chart, words, begin, chain.pop())
        for upper in reversed(chain):
            nodes = [Tree(self.symbols[upper].label, tuple(nodes))]
        return nodes

    def _build_bottom(self, chart: FineChart, words: Sequence[str], begin: int, symbol: int) -> list[Tree]:
        """Returns the best tree of a symbol that is a part of speech or has two parts."""
        label, _, before = self.symbols[symbol]
        if len(words) == 1:
            return [Tree(label, (words[0],))]
        rules = slice(*np.searchsorted(self.parents, (symbol, symbol + 1)))
        middle = np.arange(begin + 1, begin + len(words))
        left = chart.top[chart.rows[begin, middle]][:, self.left[rules]]
        right = chart.top[chart.rows[middle, begin + len(words)]][:, self.right[rules]]
        split, rule = np.unravel_index((left + right + self.scores[rules]).argmax(), left.shape)
        split += 1
        nodes = self._build(chart, words[:split], begin, self.left[rules][rule])
        nodes += self._build(chart, words[split:], begin + int(split), self.right[rules][rule])
        return nodes if before is not None else [Tree(label, tuple(nodes))]


def close_unary(rules: NumberedRules) -> dict[int, dict[int, tuple[float, int]]]:
    """Returns for each parent the ends of its unary chains: log-probability of the best chain, and its second symbol.

    A best chain has no cycle, since every rule costs.
    """
    steps = [
        (a, b, math.log(p)) for (a, b), p in zip(rules.unary.tolist(), rules.unary_probabilities.tolist(), strict=True)
    ]
    chains: dict[int, dict[int, tuple[float, int]]] = defaultdict(dict)
    for parent, child, score in steps:
        chains[parent][child] = (score, child)
    changed = True
    while changed:
        changed = False
        for parent, child, score in steps:
            for end, (rest, _) in list(chains.get(child, {}).items()):
                if end != parent and score + rest > chains[parent].get(end, (-math.inf, 0))[0]:
                    chains[parent][end] = (score + rest, child)
                    changed = True
    return dict(chains)


def _raise_to_maxima(scores: Numbers, parents: NDArray[np.intp], values: Numbers) -> None:
    """Raises scores of symbols to the largest of their values; `parents` is sorted."""
    if len(parents):
        starts = np.flatnonzero(np.diff(parents, prepend=-1))
        symbols = parents[starts]
        scores[symbols] = np.maximum(scores[symbols], np.maximum.reduceat(values, starts))


class Pcfg:
    """A grammar with its probabilities of words, learned from cleaned trees, and the parser of it."""

    def __init__(self, trees: Sequence[Tree], markovisation: Markovisation = Markovisation()) -> None:  # noqa: B008
        if not trees:
            raise ValueError("there are no trees to learn a grammar from; give files with trees")
        counts = Counter(rule for tree in trees for rule in rules_of(Tree(ROOT.label, (tree,)), "", markovisation))
        words = [word for tree in trees for word in tagged_words(tree, markovisation)]
        uses = Counter(word.tag for word in words)
        for (parent, _), count in counts.items():
            uses[parent] += count
        shortened = shorten_rare(uses, markovisation)
        plain = rename_symbols(counts, {symbol: symbol.plain for symbol in uses})
        fine = rename_symbols(counts, shortened)
        self.coarse = CoarseGrammar(plain)
        numbers = {symbol: number for number, symbol in enumerate(self.coarse.rules.symbols)}
        self.fine = FineGrammar(fine, numbers)
        self.tags = TagProbabilities([word._replace(tag=shortened[word.tag]) for word in words])
        self._plain_tags = [numbers[tag] for tag in self.tags.plain_tags]
        self._tags = [self.fine.symbols.index(tag) for tag in self.tags.tags]

    def parse(self, words: Sequence[str], thresholds: Sequence[float] = THRESHOLDS) -> Parsed:
        """Returns the best tree over the words, written as in trees; the flat tree (S (TAG word) …) where none is."""
        if not words:
            raise ValueError("the sentence has no word; leave it out")
        plain = np.zeros((len(words), len(self.coarse.rules.symbols)))
        fine = np.full((len(words), len(self.fine.symbols)), -np.inf, dtype=np.float32)
        for position, word in enumerate(words):
            plain[position, self._plain_tags], probabilities = self.tags.of(word, position == 0)
            fine[position, self._tags] = np.log(probabilities)
        expected = self.coarse.expected_counts(plain)
        if expected is not None:
            for threshold in thresholds:
                chart = self.fine.fill_chart(fine, np.greater(expected, threshold))
                score = float(chart.top[chart.rows[0, len(words)], self.fine.root])
                if score > -math.inf:
                    return Parsed(self.fine.tree(chart, words), score)
        likeliest = (plain[:, self._plain_tags] * self.tags.plain_prior).argmax(1)
        tags = [self.tags.plain_tags[tag].label for tag in likeliest]
        return Parsed(Tree("S", tuple(Tree(tag, (word,)) for tag, word in zip(tags, words, strict=True))), -math.inf)


class Timing(NamedTuple):
    """Seconds of training and of parsing, summed over folds."""

    training: float
    parsing: float


def parse_all(training: Sequence[Tree], gold: Sequence[Tree]) -> tuple[list[tuple[Tree, Parsed]], Timing]:
    """Returns the gold trees with what a parser learned from `training` makes of their words."""
    started = time.perf_counter()
    parser = Pcfg(training)
    learned = time.perf_counter()
    pairs = [(tree, parser.parse([str(tag.children[0]) for tag in preterminals(tree)])) for tree in gold]
    return pairs, Timing(learned - started, time.perf_counter() - learned)


def report(pairs: Sequence[tuple[Tree, Parsed]], timing: Timing) -> str:
    """Returns the scores by kind of sentence, and the speed, as lines."""
    lines = [report_scores([gold for gold, _ in pairs], [parsed.tree for _, parsed in pairs])]
    flat = sum(parsed.score == -math.inf for _, parsed in pairs)
    lines.append(
        f"training {timing.training:.1f} s, parsing {timing.parsing:.1f} s, "
        f"{len(pairs) / timing.parsing:.1f} sentences a second, flat trees {flat}"
    )
    return "\n".join(lines)


def main() -> None:
    """Learns, parses, and prints scores of test files or of all folds pooled."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--train", type=Path, nargs="+", required=True, help="files of trees to learn from")
    parser.add_argument("--test", type=Path, nargs="+", help="files of trees to parse the words of")
    parser.add_argument("--folds", type=int, help="instead of --test: cross-validation over the files of --train")
    parser.add_argument("--out", type=Path, help="write the parsed trees here, one a line, fold after fold")
    options = parser.parse_args()
    if (options.test is None) == (options.folds is None):
        parser.error("give --test FILES or --folds N")
    splits = [(options.train, options.test)] if options.folds is None else train_and_test(options.train, options.folds)
    results = [parse_all(read_cleaned(training), read_cleaned(test)) for training, test in splits]
    pairs = [pair for fold_pairs, _ in results for pair in fold_pairs]
    print(report(pairs, Timing(*(sum(seconds) for seconds in zip(*(timing for _, timing in results), strict=True)))))
    if options.out is not None:
        options.out.write_text("".join(f"{format_tree(parsed.tree)}\n" for _, parsed in pairs), "utf-8")


if __name__ == "__main__":
    main()
