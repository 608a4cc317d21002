"""The splits, and properties that all sentences have."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from transduce.embedded import SPLITS, Example, count_derivations, english_inflection, split, write
from transduce.embedded.baselines import translation_memory, word_by_word
from transduce.embedded.grammar import Setting, any_clause, relative, sentence
from transduce.embedded.held_out_pairs import Pairs, is_held_out, pairs_in
from transduce.embedded.lexicon import ADJECTIVES, NOUNS, VERBS
from transduce.embedded.splits import COMMON, HELD_OUT
from transduce.embedded.syntax import NounPhrase

Corpus = dict[str, list[Example]]

LABELS = {"S", "SBAR", "SBARQ", "SQ", "NP", "VP", "PP", "ADVP", "ADJP", "PRT", "WHNP", "WHPP", "WHADVP"}
WORDS = {"CC", "CD", "DT", "IN", "JJ", "MD", "NN", "NNP", "NNS", "POS", "PRP", "PRP$", "RB", "RP", "TO"}
TAGS = WORDS | {",", ".", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WRB"}


@pytest.fixture(scope="module", params=[8_000, pytest.param(40_000, marks=pytest.mark.slow)])
def corpus(request: pytest.FixtureRequest) -> Corpus:
    """All of the splits, or a part of the training split."""
    return {name: split(name, count=request.param if name == "train" else None) for name in SPLITS}


def constituents(line: str) -> Iterator[tuple[str, list[str]]]:
    """Yields (label, children as lines) of every constituent, checking brackets; the child of a leaf is its word."""
    stack: list[tuple[str, list[str], int]] = []
    for match in re.finditer(r"\((\S+) |([^()\s]+)|\)", line):
        if match[1]:
            stack.append((match[1], [], match.start()))
        elif match[2]:
            stack[-1][1].append(match[2])
        else:
            label, children, start = stack.pop()
            yield label, children
            if stack:
                stack[-1][1].append(line[start : match.end()])
    assert not stack


def test_sizes_lengths_and_disjointness(corpus: Corpus) -> None:
    assert SPLITS == {"train": 40_000, "validation": 1_000, "test": 1_000, "novel": 1_000}
    assert all(len(corpus[name]) == 1_000 for name in ("validation", "test", "novel"))
    sources = [example.source for examples in corpus.values() for example in examples]
    assert len(set(sources)) == len(sources) >= 11_000
    for examples in corpus.values():
        lengths = [len(example.source.split()) for example in examples]
        assert sum(lengths) / len(lengths) >= 9
        assert sum(length > 16 for length in lengths) / len(lengths) >= 0.1


def test_english_determines_german(corpus: Corpus) -> None:
    """Other seeds repeat short sentences, whose translations must agree."""
    german: dict[str, str] = {}
    repeated = 0
    for example in [*(e for examples in corpus.values() for e in examples), *split("train", seed=2, count=9_000)]:
        repeated += example.source in german
        assert german.setdefault(example.source, example.target) == example.target
    assert repeated > len(corpus["train"]) / 800


def test_leaves_of_trees_are_the_tokens(corpus: Corpus) -> None:
    for example in corpus["test"] + corpus["novel"]:
        leaves = []
        for label, children in constituents(example.tree):
            leaf = not children[0].startswith("(")
            assert label in (TAGS if leaf else LABELS)
            if leaf:
                leaves += children
        assert tuple(leaves) == example.source_tokens
        assert example.tree.startswith(("(S ", "(SQ ", "(SBARQ "))


def test_lines_are_detokenised_tokens(corpus: Corpus) -> None:
    for example in corpus["train"]:
        for line, tokens in ((example.source, example.source_tokens), (example.target, example.target_tokens)):
            assert line.replace(" ", "") == "".join(tokens)
            assert line[0].isupper()
            assert line[-1] in ".?"
            assert not re.search(r" [,.?']|,,|  |,[^ ]|\bcan not\b", line)


def test_alignment_covers_every_word_but_commas_and_added_articles(corpus: Corpus) -> None:
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
    """Returns the lemma of each inflected English noun, and of each verb."""
    nouns = {form: noun.english for noun in NOUNS for form in (noun.english, noun.english_plural)}
    verbs = {}
    for verb in VERBS:
        for tag in ("VB", "VBZ", "VBG", "VBD", "VBN"):
            verbs[english_inflection.verb(verb.english, tag, verb.past, verb.participle)] = verb.english
    return nouns, verbs


def pairs_of_tree(tree: str, nouns: dict[str, str], verbs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields adjectives with their nouns and active verbs with their direct objects, read from the tree alone."""
    adjectives = {adjective.english for adjective in ADJECTIVES}
    for label, subtrees in constituents(tree):
        children = [child for child in subtrees if not child.startswith("(PRT ")]
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
    training = {pair for example in corpus["train"] for pair in pairs_of_tree(example.tree, nouns, verbs)}
    novel = [pair for example in corpus["novel"] for pair in pairs_of_tree(example.tree, nouns, verbs)]
    times = {"week", "month", "year", "day", "evening"}  # "sleeps every day" has no object
    assert not {(word, noun) for word, noun in novel if noun not in times} & training
    assert len(set(novel)) > 500
    assert len(training) > (2_000 if len(corpus["train"]) == SPLITS["train"] else 1_500)


@pytest.mark.parametrize(("pairs", "held"), [(COMMON, False), (HELD_OUT, True)])
def test_pairs_of_a_sentence_match_its_split(pairs: Pairs, held: bool) -> None:
    rule, draw = sentence(pairs), Random("pairs").random
    sampled = {pair for _ in range(4_000) for pair in pairs_in(rule.sample(draw))}
    assert len(sampled) > 200
    assert {is_held_out(*pair) for pair in sampled} == {held}


def test_antecedent_of_a_passive_relative_clause_is_an_object_of_its_verb() -> None:
    (man,) = (noun for noun in NOUNS if noun.english == "man")
    rule, draw = relative(COMMON, man, 0), Random("passives").random
    passives = {clause.verb for clause in (rule.sample(draw) for _ in range(5_000)) if clause.form.passive}
    assert all(man in verb.slots[0].nouns and not is_held_out(verb.english, "man") for verb in passives)
    assert len(passives) > 3


def test_volition_needs_a_person_or_animal_and_infinitives_are_not_reflexive() -> None:
    draw = Random("wishes").random
    rule, infinitive = any_clause(COMMON, Setting(), 1), any_clause(COMMON, Setting(infinitive=True), 1)
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


def test_a_repeated_adjective_is_aligned_one_to_one(corpus: Corpus) -> None:
    (example,) = [e for e in corpus["test"] if e.source.startswith("After the dangerous exam, the tired lawyer")]
    pairs = [pair for pair in example.alignment if example.source_tokens[pair[0]] == "dangerous"]
    assert len(pairs) == example.source_tokens.count("dangerous") == 2
    assert len({source for source, _ in pairs}) == len({target for _, target in pairs}) == 2


def digest(examples: list[Example]) -> str:
    text = "\n".join(f"{e.source}\t{e.target}\t{e.tree}\t{e.alignment}" for e in examples)
    return hashlib.sha256(text.encode()).hexdigest()


DIGEST = "a8ebc27b15af1904655c63bc8304e2f57bfe2304c714a053d646b9586a996e6e"


def test_digest_of_the_first_thousand_pairs(corpus: Corpus) -> None:
    assert digest(corpus["train"][:1_000]) == DIGEST


def test_sentences_do_not_depend_on_the_hash_seed() -> None:
    code = "from transduce.embedded import split; print(ascii([tuple(e) for e in split('novel', count=60)]))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=120, text=True
    )
    assert run.stdout.strip() == ascii([tuple(e) for e in split("novel", count=60)])


def test_unknown_split_and_bad_count_raise() -> None:
    with pytest.raises(ValueError, match=r"no split `tset`.*train, validation, test, novel"):
        split("tset")
    with pytest.raises(ValueError, match="count is 0"):
        split("test", count=0)


def test_files_hold_one_example_a_line(tmp_path: Path) -> None:
    paths = write("validation", tmp_path / "new" / "directory", count=20)
    assert [path.name for path in paths] == ["source.en", "target.de", "trees.en", "alignments"]
    lines = [path.read_text(encoding="utf-8").split("\n") for path in paths]
    assert {len(column) for column in lines} == {21}
    first = split("validation", count=1)[0]
    assert [column[0] for column in lines[:3]] == [first.source, first.target, first.tree]
    pairs = [tuple(int(end) for end in pair.split("-")) for pair in lines[3][0].split(" ")]
    assert tuple(pairs) == first.alignment


def test_baselines_have_low_scores(corpus: Corpus) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    sources = [example.source for example in corpus["test"]]
    references = [[example.target for example in corpus["test"]]]
    for baseline, most in ((translation_memory, 50), (word_by_word, 40)):
        score = sacrebleu.corpus_bleu(baseline(corpus["train"], sources), references).score
        assert 1 < score <= most


def test_translation_memory_returns_the_target_of_a_known_source(corpus: Corpus) -> None:
    training = corpus["train"][:400]
    assert translation_memory(training, [e.source for e in training[:50]]) == [e.target for e in training[:50]]


def test_word_by_word_uses_the_word_most_often_aligned() -> None:
    training = split("train", count=2_000)
    assert word_by_word(training, ["The zebra and Anna."]) == ["Die zebra und Anna."]


def test_a_split_is_written_with_another_seed(tmp_path: Path) -> None:
    paths = write("novel", tmp_path, seed=3, count=7)
    assert paths[0].name == "source.en"
    assert (tmp_path / "target.de").read_text(encoding="utf-8").count("\n") == 7
    assert count_derivations() >= 10**9
