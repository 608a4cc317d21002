"""The corpus itself: its splits, and what holds of each of its 43,000 sentences."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from transduce.embedded import SPLITS, Example, split, write
from transduce.embedded.baselines import translation_memory, word_by_word
from transduce.embedded.english import morphology
from transduce.embedded.grammar.clauses import Setting, relative, said
from transduce.embedded.grammar.pairs import Pairs, held_out, pairs_in
from transduce.embedded.grammar.sentences import sentence
from transduce.embedded.lexicon import ADJECTIVES, NOUNS, VERBS
from transduce.embedded.splits import COMMON, HELD_OUT
from transduce.embedded.syntax import NounPhrase

Corpus = dict[str, list[Example]]

LABELS = {"S", "SBAR", "SBARQ", "SQ", "NP", "VP", "PP", "ADVP", "ADJP", "PRT", "WHNP", "WHPP", "WHADVP"}
WORDS = {"CC", "CD", "DT", "IN", "JJ", "MD", "NN", "NNP", "NNS", "POS", "PRP", "PRP$", "RB", "RP", "TO"}
TAGS = WORDS | {",", ".", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WRB"}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return {name: split(name) for name in SPLITS}


def constituents(line: str) -> Iterator[tuple[str, list[str]]]:
    """(label, its children as lines) of every constituent; leaves have one child, the word. Says no to bad brackets."""
    stack: list[tuple[str, list[str], int]] = []
    for found in re.finditer(r"\((\S+) |([^()\s]+)|\)", line):
        if found[1]:
            stack.append((found[1], [], found.start()))
        elif found[2]:
            stack[-1][1].append(found[2])
        else:
            label, children, start = stack.pop()
            yield label, children
            if stack:
                stack[-1][1].append(line[start : found.end()])
    assert not stack


def test_sizes_lengths_and_disjointness(corpus: Corpus) -> None:
    assert {name: len(examples) for name, examples in corpus.items()} == {
        "train": 40_000,
        "validation": 1_000,
        "test": 1_000,
        "novel": 1_000,
    }
    sources = [example.source for examples in corpus.values() for example in examples]
    assert len(set(sources)) == 43_000
    for examples in corpus.values():
        lengths = [len(example.source.split()) for example in examples]
        assert sum(lengths) / len(lengths) >= 9
        assert sum(length > 16 for length in lengths) / len(lengths) >= 0.1


def test_english_determines_german(corpus: Corpus) -> None:
    """Also for sentences drawn by other seeds, where short ones come again."""
    german: dict[str, str] = {}
    again = 0
    for example in [*(e for examples in corpus.values() for e in examples), *split("train", seed=2, count=9_000)]:
        again += example.source in german
        assert german.setdefault(example.source, example.target) == example.target
    assert again > 50


def test_trees_say_the_sentence(corpus: Corpus) -> None:
    for example in corpus["test"] + corpus["novel"]:
        leaves = []
        for label, children in constituents(example.tree):
            leaf = not children[0].startswith("(")
            assert label in (TAGS if leaf else LABELS)
            if leaf:
                leaves += children
        assert tuple(leaves) == example.source_tokens
        assert example.tree.startswith(("(S ", "(SQ ", "(SBARQ "))


def test_lines_are_their_tokens_detokenised(corpus: Corpus) -> None:
    for example in corpus["train"]:
        for line, tokens in ((example.source, example.source_tokens), (example.target, example.target_tokens)):
            assert line.replace(" ", "") == "".join(tokens)
            assert line[0].isupper()
            assert line[-1] in ".?"
            assert not re.search(r" [,.?']|,,|  |,[^ ]|\bcan not\b", line)


def test_alignment_covers_every_word_that_says_something(corpus: Corpus) -> None:
    for example in corpus["test"] + corpus["novel"]:
        sources, targets = ({pair[side] for pair in example.alignment} for side in (0, 1))
        assert len(set(example.alignment)) == len(example.alignment)
        assert max(sources) < len(example.source_tokens)
        assert max(targets) < len(example.target_tokens)
        assert {n for n, token in enumerate(example.source_tokens) if token != ","} <= sources
        # The article of "das Auto des Lehrers" has no word in "the teacher's car".
        loose = {example.target_tokens[n].lower() for n in range(len(example.target_tokens)) if n not in targets}
        assert loose <= {",", "der", "die", "das", "den", "dem"}


def lemma_tables() -> tuple[dict[str, str], dict[str, str]]:
    """Inflected English nouns and verbs, each with its lemma."""
    nouns = {form: noun.english for noun in NOUNS for form in (noun.english, noun.english_plural)}
    verbs = {}
    for verb in VERBS:
        for tag in ("VB", "VBZ", "VBG", "VBD", "VBN"):
            verbs[morphology.verb(verb.english, tag, verb.past, verb.participle)] = verb.english
    return nouns, verbs


def pairs_of_tree(tree: str, nouns: dict[str, str], verbs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Attributive adjectives with their nouns, active verbs with their direct objects, as the tree alone shows them."""
    adjectives = {adjective.english for adjective in ADJECTIVES}
    for label, everything in constituents(tree):
        children = [child for child in everything if not child.startswith("(PRT ")]
        if not children[0].startswith("("):
            continue
        words = [re.findall(r" ([^()\s]+)\)", child) for child in children]
        tags = [child.split(" ")[0] for child in children]
        if label == "NP" and tags[-1] in ("(NN", "(NNS"):
            noun = nouns.get(words[-1][0].lower())
            before = words[-2][-1].lower() if len(words) > 1 and tags[-2] in ("(JJ", "(ADJP") else ""
            if noun and before in adjectives:
                yield before, noun
        if label == "VP" and len(children) > 1 and tags[0][1:] in ("VB", "VBZ", "VBP", "VBD", "VBG", "VBN"):
            verb = verbs.get(words[0][0].lower())
            noun = nouns.get(words[1][-1].lower())
            if verb and noun and tags[1] == "(NP" and "(SBAR" not in children[1] and "(PP" not in children[1]:
                yield verb, noun


def test_no_pair_of_novel_is_in_training(corpus: Corpus) -> None:
    nouns, verbs = lemma_tables()
    known = {pair for example in corpus["train"] for pair in pairs_of_tree(example.tree, nouns, verbs)}
    found = [pair for example in corpus["novel"] for pair in pairs_of_tree(example.tree, nouns, verbs)]
    times = {"week", "month", "year", "day", "evening"}  # "sleeps every day" has no object
    assert not {(word, noun) for word, noun in found if noun not in times} & known
    assert len(set(found)) > 500
    assert len(known) > 2_000


@pytest.mark.parametrize(("pairs", "held"), [(COMMON, False), (HELD_OUT, True)])
def test_every_pair_of_a_sentence_is_of_its_split(pairs: Pairs, held: bool) -> None:
    rule, draw = sentence(pairs), Random("pairs").random
    found = {pair for _ in range(4_000) for pair in pairs_in(rule.sample(draw))}
    assert len(found) > 200
    assert {held_out(*pair) for pair in found} == {held}


def test_who_is_described_by_a_passive_is_what_the_verb_is_done_to() -> None:
    (man,) = (noun for noun in NOUNS if noun.english == "man")
    rule, draw = relative(COMMON, man, 0), Random("passives").random
    passives = {clause.verb for clause in (rule.sample(draw) for _ in range(5_000)) if clause.form.passive}
    assert all(man in verb.slots[0].nouns and not held_out(verb.english, "man") for verb in passives)
    assert len(passives) > 3


def test_only_who_lives_wants_and_is_allowed_and_no_infinitive_is_reflexive() -> None:
    draw = Random("wishes").random
    rule, infinitive = said(COMMON, Setting(), 1), said(COMMON, Setting(infinitive=True), 1)
    for clause in (rule.sample(draw) for _ in range(20_000)):
        if (
            clause.form.modal
            and clause.form.modal.english in ("want to", "may")
            and isinstance(clause.subject, NounPhrase)
        ):
            assert clause.subject.noun.classes & {"person", "animal"}, clause
    assert not any(infinitive.sample(draw).verb.reflexive for _ in range(2_000))


def test_other_seeds_and_counts_stay_in_their_splits() -> None:
    training = {example.source for example in split("train", seed=4, count=3_000)}
    for name in ("validation", "test", "novel"):
        other = split(name, seed=4, count=300)
        assert len(other) == len({example.source for example in other}) == 300
        assert not training & {example.source for example in other}
    assert split("test", count=5) == split("test", count=9)[:5]
    assert split("test", seed=2, count=5) != split("test", count=5)


def test_the_same_adjective_twice_is_aligned_place_by_place(corpus: Corpus) -> None:
    (example,) = [e for e in corpus["test"] if e.source.startswith("After the dangerous exam, the tired lawyer")]
    pairs = [pair for pair in example.alignment if example.source_tokens[pair[0]] == "dangerous"]
    assert len(pairs) == example.source_tokens.count("dangerous") == 2
    assert len({source for source, _ in pairs}) == len({target for _, target in pairs}) == 2


def digest(examples: list[Example]) -> str:
    text = "\n".join(f"{e.source}\t{e.target}\t{e.tree}\t{e.alignment}" for e in examples)
    return hashlib.sha256(text.encode()).hexdigest()


DIGEST = "a8ebc27b15af1904655c63bc8304e2f57bfe2304c714a053d646b9586a996e6e"


def test_the_first_thousand_pairs_are_the_same_everywhere(corpus: Corpus) -> None:
    assert digest(corpus["train"][:1_000]) == DIGEST


def test_no_order_depends_on_the_hash_of_strings() -> None:
    code = "from transduce.embedded import split; print(ascii([tuple(e) for e in split('novel', count=60)]))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=120, text=True
    )
    assert run.stdout.strip() == ascii([tuple(e) for e in split("novel", count=60)])


def test_unknown_split_and_bad_count_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no split `tset`.*train, validation, test, novel"):
        split("tset")
    with pytest.raises(ValueError, match="count is 0"):
        split("test", count=0)


def test_files_hold_one_example_a_line(tmp_path: Path) -> None:
    paths = write("validation", tmp_path / "new" / "directory", count=20)
    assert [path.name for path in paths] == ["source.en", "target.de", "trees.en", "alignments"]
    lines = [path.read_text(encoding="utf-8").split("\n") for path in paths]
    assert {len(found) for found in lines} == {21}
    first = split("validation", count=1)[0]
    assert [found[0] for found in lines[:3]] == [first.source, first.target, first.tree]
    pairs = [tuple(int(end) for end in pair.split("-")) for pair in lines[3][0].split(" ")]
    assert tuple(pairs) == first.alignment


def test_a_memory_and_a_dictionary_do_not_translate(corpus: Corpus) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    sources = [example.source for example in corpus["test"]]
    references = [[example.target for example in corpus["test"]]]
    for baseline, most in ((translation_memory, 50), (word_by_word, 40)):
        score = sacrebleu.corpus_bleu(baseline(corpus["train"], sources), references).score
        assert 1 < score <= most


def test_a_memory_recalls_what_it_holds(corpus: Corpus) -> None:
    some = corpus["train"][:400]
    assert translation_memory(some, [e.source for e in some[:50]]) == [e.target for e in some[:50]]


def test_a_dictionary_gives_the_word_most_often_aligned() -> None:
    training = split("train", count=2_000)
    assert word_by_word(training, ["The zebra and Anna."]) == ["Die zebra und Anna."]


def test_the_command_writes_a_split_or_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transduce.commands.embedded import embedded

    embedded(split="novel", out=tmp_path, seed=3, count=7)
    assert (tmp_path / "target.de").read_text(encoding="utf-8").count("\n") == 7
    assert capsys.readouterr().out.split("\n")[0].endswith("source.en")
    embedded(count_derivations=True)
    assert int(capsys.readouterr().out) >= 10**9
    with pytest.raises(ValueError, match="--out"):
        embedded(split="test")
