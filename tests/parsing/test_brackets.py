"""The bracket measure against EVALB's sample, against an independent count of damaged trees, and by hand."""

import logging
import os
import random
import re
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from transduce.parsing.bracket_files import read_gold_trees, read_output_trees
from transduce.parsing.bracket_scores import bracket_scores, compare_brackets
from transduce.parsing.brackets import COLLINS, count_sentences, parse_parameters
from transduce.parsing.trees import Tree, format_tree, parse_tree, read_trees

DATA = Path(os.environ.get("TRANSDUCE_DATA", "/nonexistent"))


def evalb(name: str) -> list[str]:
    path = DATA / "evalb" / name
    if not path.exists():
        pytest.skip(f"TRANSDUCE_DATA has no evalb/{name}")
    return path.read_text("utf-8").removesuffix("\n").split("\n")


# ---- EVALB's sample


def rounded(figure: float) -> str:
    return f"{figure:.2f}"


def percent(part: float, whole: float) -> str:
    return rounded(100 * part / whole if whole else 0)


@pytest.fixture(scope="module")
def sample():
    parameters = parse_parameters(evalb("sample/sample.prm"), "sample.prm")
    return evalb("sample/sample.gld"), evalb("sample/sample.tst"), parameters


def test_every_line_of_the_sample_is_as_evalb_prints_it(sample):
    printed = [line.split() for line in evalb("sample/sample.rsl") if line[:4].strip().isdigit()]
    counts = count_sentences(*sample)
    assert len(printed) == len(counts) == 24
    for number, (row, each) in enumerate(zip(printed, counts, strict=True), start=1):
        expected = [
            number, each.length, int(each.status),
            percent(each.matched, each.gold), percent(each.matched, each.output),
            each.matched, each.gold, each.output, each.crossing,
            each.words, each.tags, percent(each.tags, each.words),
        ]  # fmt: skip
        assert row == list(map(str, expected)), f"sentence {number}"


def summaries() -> tuple[list[str], list[dict[str, float]]]:
    """The line of totals, and the two summaries by the names of their rows."""
    lines = evalb("sample/sample.rsl")
    first = next(place for place, line in enumerate(lines) if line.startswith("=== Summary"))
    totals: list[dict[str, float]] = []
    for line in lines[first:]:
        if line.startswith("--"):
            totals.append({})
        elif "=" in line.strip("="):
            name, figure = line.split("= ")
            totals[-1][" ".join(name.split())] = figure.strip().rstrip("%")
    return lines[first - 1].replace("%", "").split(), totals


def test_both_summaries_of_the_sample_are_as_evalb_prints_them(sample):
    score = bracket_scores(*sample)
    line, printed = summaries()
    for summary, totals in zip(printed, (score.totals, score.short), strict=True):
        assert summary == {
            "Number of sentence": str(totals.sentences),
            "Number of Error sentence": str(totals.errors),
            "Number of Skip sentence": str(totals.skipped),
            "Number of Valid sentence": str(totals.valid),
            "Bracketing Recall": rounded(totals.recall),
            "Bracketing Precision": rounded(totals.precision),
            "Complete match": rounded(totals.complete_match),
            "Average crossing": rounded(totals.average_crossing),
            "No crossing": rounded(totals.no_crossing),
            "2 or less crossing": rounded(totals.two_or_less_crossing),
            "Tagging accuracy": rounded(totals.tagging_accuracy),
        }
    valid = [each for each in count_sentences(*sample) if not each.status]
    assert line == [
        rounded(score.recall), rounded(score.precision),
        str(score.totals.matched), str(score.totals.gold), str(score.totals.output),
        str(sum(not each.crossing for each in valid)),  # EVALB's sample prints sentences without crossing here
        str(sum(each.words for each in valid)), str(sum(each.tags for each in valid)),
        rounded(score.totals.tagging_accuracy),
    ]  # fmt: skip
    assert score.f1 == pytest.approx(2 * score.recall * score.precision / (score.recall + score.precision), abs=1e-9)
    # Seven sentences of four brackets are missing.
    recall = score.totals.matched / (score.totals.gold + 7 * 4)
    precision = score.precision / 100
    assert score.totals.f1_with_errors == pytest.approx(200 * recall * precision / (recall + precision), abs=1e-9)


# ---- an independent count of damaged trees: nested lists, counters and the definitions

DELETED = {"TOP", "-NONE-", ",", ":", "``", "''", "."}


def nested(tree: Tree) -> list:
    return [tree.label, *(child if isinstance(child, str) else nested(child) for child in tree.children)]


def formatted(node: list) -> str:
    return f"({' '.join(part if isinstance(part, str) else formatted(part) for part in node)})"


def leaves(node: list) -> list[list]:
    return [node] if isinstance(node[1], str) else [leaf for child in node[1:] for leaf in leaves(child)]


def phrases(node: list) -> list[list]:
    return [] if isinstance(node[1], str) else [node, *(each for child in node[1:] for each in phrases(child))]


def labelled_spans(tree: list, kept: set[int]) -> Counter:
    """Counts (label, start, end) of the phrases, over the leaves whose identity is in `kept`."""
    order = {id(leaf): place for place, leaf in enumerate(leaf for leaf in leaves(tree) if id(leaf) in kept)}
    spans: Counter = Counter()
    for phrase in phrases(tree):
        places = [order[id(leaf)] for leaf in leaves(phrase) if id(leaf) in kept]
        label = phrase[0].split("-")[0].split("=")[0]
        if places and phrase[0] and label not in DELETED:
            spans["ADVP" if label == "PRT" else label, places[0], places[-1] + 1] += 1
    return spans


def crosses(span: tuple, other: tuple) -> bool:
    _, start, end = span
    words, others = set(range(start, end)), set(range(other[1], other[2]))
    return bool(words & others) and not words <= others and not others <= words


def kept_leaves(gold: list, output: list) -> tuple[list, list, bool]:
    kept = [[leaf for leaf in leaves(tree) if leaf[0] not in DELETED] for tree in (gold, output)]
    every = [[leaf for leaf in leaves(tree) if leaf[0] != "-NONE-"] for tree in (gold, output)]
    words = [[leaf[1] for leaf in each] for each in every]
    if len(kept[0]) == len(kept[1]) or not kept[1] or words[0] != words[1]:
        return *kept, False
    both = [(a, b) for a, b in zip(*every, strict=True) if not (a[0] in DELETED and b[0] in DELETED)]
    return [a for a, _ in both], [b for _, b in both], True


def expected_counts(gold: list, output: list | None) -> dict:
    """What the definitions say of one sentence."""
    kept_gold, kept, put_back = kept_leaves(gold, output or ["", ["-NONE-", "*"]])
    counts = {"length": sum(leaf[0] != "-NONE-" for leaf in leaves(gold)), "words": len(kept_gold)}
    spans_gold = labelled_spans(gold, set(map(id, kept_gold)))
    if not kept or [leaf[1] for leaf in kept_gold] != [leaf[1] for leaf in kept]:
        return {**counts, "status": 1 if kept else 2, "missed": spans_gold.total()}
    spans = labelled_spans(output, set(map(id, kept)))
    equal = {"PRT": "ADVP"}
    return {
        **counts,
        "status": 0,
        "matched": (spans_gold & spans).total(),
        "gold": spans_gold.total(),
        "output": spans.total(),
        "crossing": sum(count * any(crosses(span, each) for each in spans_gold) for span, count in spans.items()),
        "tags": sum(equal.get(a[0], a[0]) == equal.get(b[0], b[0]) for a, b in zip(kept_gold, kept, strict=True)),
        "put_back": put_back,
    }


def damaged(tree: list, generator: random.Random) -> list | None:
    """A copy with none to five kinds of damage; None instead of one in fifty."""
    copy = nested(parse_tree(formatted(tree)))
    for _ in range(generator.choice([0, 1, 2, 5, 9])):
        inner = phrases(copy)[1:] or [copy]
        phrase = generator.choice(inner)
        match generator.randrange(12):
            case 0:  # another label
                phrase[0] = generator.choice(["NP", "VP", "PP-LOC", "ADVP", "PRT", "S=2", "TOP", "X", "NP-SBJ"])
            case 1:  # a phrase drops its brackets
                place = generator.randrange(1, len(phrase))
                if not isinstance(phrase[place][1], str):
                    phrase[place : place + 1] = phrase[place][1:]
            case 2:  # a phrase of some parts
                first, last = sorted(generator.choices(range(1, len(phrase) + 1), k=2))
                if first < last:
                    phrase[first:last] = [[generator.choice(["NP", "VP", phrase[0]]), *phrase[first:last]]]
            case 7 | 8 | 9 | 10 | 11:  # the first part of a phrase moves into the phrase before it
                for before, after in pairwise(phrase[1:]):
                    if not isinstance(before[1], str) and len(after) > 2:
                        before.append(after.pop(1))
                        break
            case 3 | 4 | 5:  # another tag
                generator.choice(leaves(copy))[0] = generator.choice(["NN", "JJ", ",", ".", "RB", "PRT", "ADVP"])
            case 6:  # another word
                if generator.random() < 0.1:
                    generator.choice(leaves(copy))[1] = "damaged"
    return copy if generator.random() > 0.02 else None


def ptb_trees(count: int) -> list[list]:
    files = sorted((DATA / "ptb-sample").glob("*.mrg"))
    if not files:
        pytest.skip("TRANSDUCE_DATA has no ptb-sample")
    trees: list[list] = []
    for file in files:
        trees += [nested(tree) for _, tree in read_trees(file.read_text("utf-8").split("\n"), file.name)]
        if len(trees) >= count:
            break
    return trees[:count]


@pytest.fixture(scope="module")
def damage():
    gold = ptb_trees(1000)
    generator = random.Random(5)
    return gold, [damaged(tree, generator) for tree in gold]


def as_lines(trees: list[list | None]) -> list[str]:
    return ["" if tree is None else formatted(tree) for tree in trees]


def test_a_thousand_damaged_trees_equal_the_independent_count(damage):
    gold, output = damage
    counts = count_sentences(as_lines(gold), as_lines(output))
    statuses: Counter = Counter()
    for number, (tree, other, each) in enumerate(zip(gold, output, counts, strict=True), start=1):
        expected = expected_counts(tree, other)
        assert {name: getattr(each, name) for name in expected} == expected, f"sentence {number}"
        statuses[each.status, each.put_back] += 1
    # The damage is of every kind: valid, put back, an error, skipped.
    assert min(statuses.values()) >= 10
    assert set(statuses) == {(0, False), (0, True), (1, False), (2, False)}
    assert {each.crossing for each in counts} >= {0, 1, 2, 3}


def test_the_totals_of_damaged_trees_equal_the_independent_totals(damage):
    gold, output = damage
    score = bracket_scores(as_lines(gold), as_lines(output))
    every = [expected_counts(*pair) for pair in zip(gold, output, strict=True)]
    for totals, counts in ((score.totals, every), (score.short, [each for each in every if each["length"] <= 40])):
        valid = [each for each in counts if each["status"] == 0]
        matched, in_gold, in_output = (sum(each[name] for each in valid) for name in ("matched", "gold", "output"))
        recall, precision = 100 * matched / in_gold, 100 * matched / in_output
        missed = sum(each.get("missed", 0) for each in counts)
        worse_recall = 100 * matched / (in_gold + missed)
        evalb_only = [each for each in valid if not each["put_back"]]
        expected = {
            "recall": recall,
            "precision": precision,
            "f1": 2 * recall * precision / (recall + precision),
            "f1_with_errors": 2 * worse_recall * precision / (worse_recall + precision),
            "average_crossing": sum(each["crossing"] for each in valid) / len(valid),
            "no_crossing": 100 * sum(each["crossing"] == 0 for each in valid) / len(valid),
            "two_or_less_crossing": 100 * sum(each["crossing"] < 3 for each in valid) / len(valid),
            "complete_match": 100
            * sum(each["matched"] == each["gold"] == each["output"] for each in valid)
            / len(valid),
            "tagging_accuracy": 100 * sum(each["tags"] for each in valid) / sum(each["words"] for each in valid),
            "f1_without_put_back": 200
            * sum(each["matched"] for each in evalb_only)
            / sum(each["gold"] + each["output"] for each in evalb_only),
        }
        for name, figure in expected.items():
            assert getattr(totals, name) == pytest.approx(figure, abs=1e-9), name
        assert totals.sentences == len(counts) == totals.valid + totals.errors + totals.skipped
        assert totals.skipped == sum(each["status"] == 2 for each in counts) > 0
        assert totals.put_back == len(valid) - len(evalb_only) > 0
    assert 50 < score.f1 < 99


def test_gold_trees_against_themselves_are_complete(damage):
    gold, _ = damage
    score = bracket_scores(as_lines(gold), [parse_tree(formatted(tree)) for tree in gold])
    totals = score.totals
    assert [totals.f1, totals.f1_with_errors, totals.complete_match, totals.tagging_accuracy] == [100] * 4
    assert (totals.average_crossing, totals.no_crossing, totals.valid, totals.put_back) == (0, 100, 1000, 0)


def test_three_thousand_sentences_take_less_than_five_seconds(damage):
    trees = [parse_tree(formatted(tree)) for tree in damage[0]] * 3
    began = time.process_time()
    assert bracket_scores(trees, trees).f1 == 100
    assert time.process_time() - began < 5


# ---- by hand

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD sat) (ADVP (RB down))) (. .)))"


def counts_of(output, gold=GOLD, parameters=COLLINS):
    (counts,) = count_sentences([gold], [output], parameters)
    return counts


def figures(output, gold=GOLD, parameters=COLLINS) -> tuple[int, ...]:
    """Matched, gold, output and crossing brackets."""
    counts = counts_of(output, gold, parameters)
    assert counts.status == 0, counts.reason
    return counts.matched, counts.gold, counts.output, counts.crossing


def test_particles_are_adverb_phrases_and_function_tags_are_cut():
    output = GOLD.replace("ADVP", "PRT").replace("(NP", "(NP-SBJ-1").replace("(VP", "(VP=2")
    assert figures(output) == (4, 4, 4, 0)
    assert figures(output, parameters=COLLINS._replace(equal_labels=frozenset())) == (3, 4, 4, 0)


def test_traces_leave_no_brackets():
    output = GOLD.replace("(VBD sat)", "(VBD sat) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))")
    assert figures(output) == figures(GOLD, output) == (4, 4, 4, 0)
    assert counts_of(GOLD, output).length == 5, "traces are no words"


def test_repeated_brackets_match_once_each():
    twice = GOLD.replace("(NP (DT the) (NN cat))", "(NP (NP (DT the) (NN cat)))")
    thrice = twice.replace("(NP (NP", "(NP (NP (NP").replace("(NN cat)))", "(NN cat))))")
    assert figures(thrice) == (4, 4, 6, 0)
    assert figures(thrice, twice) == (5, 5, 6, 0)
    assert figures(GOLD, thrice) == (4, 6, 4, 0)


def test_brackets_without_labels():
    unlabelled = COLLINS._replace(labelled=False)
    output = GOLD.replace("(NP", "(X").replace("(VP", "(Y")
    assert figures(output) == (2, 4, 4, 0)
    assert figures(output, parameters=unlabelled) == (4, 4, 4, 0)


def test_crossing_brackets_are_those_of_the_output():
    output = "(S (X (X (DT the) (X (NN cat) (VBD sat)))) (RB down) (. .))"
    assert figures(output)[3] == 3


def test_an_outer_bracket_without_a_label_is_top():
    for outer in ("( {} )", "({})", "{}"):
        assert figures(outer.format(GOLD.removeprefix("(TOP ")[:-1])) == (4, 4, 4, 0)
    assert figures(GOLD.replace("TOP", "ROOT")) == (4, 4, 5, 0), "COLLINS counts ROOT"


def test_a_line_may_have_several_trees():
    assert figures("(DT the) (NN cat) (VP (VBD sat) (ADVP (RB down))) (. .)") == (2, 4, 2, 0)
    assert figures(tuple(tree for _, tree in read_trees(["(NP (DT the) (NN cat)) (VBD sat) (RB down)"], ""))) == (
        1, 4, 1, 0,
    )  # fmt: skip


@pytest.mark.parametrize("output", [None, "", "  ", "()", "(TOP (S))", "(TOP (-NONE- *))", "(. .)", []])
def test_an_output_without_words_is_skipped(output):
    counts = counts_of(output)
    assert counts == (2, 5, 4, 0, 0, 0, 0, 0, False, 4, "no words")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (GOLD.replace("cat", "dog"), "'dog', not 'cat'"),
        (GOLD.replace("(NN cat)", "(NN cat) (NN cat)"), "5 words, not 4"),
        (GOLD.replace("(NN cat)", ""), "3 words, not 4"),
        (GOLD[:-1], "the text: the tree that begins on line 1 lacks a closing bracket.*"),
        ("(S (DT the) cat (VBD sat) (RB down))", r"the word 'cat' in \(S …\) has no part of speech"),
        ("the cat sat down", "the text: line 1 has 'the' outside of a tree.*"),
    ],
)
def test_other_words_and_broken_trees_are_errors(output, reason):
    counts = counts_of(output)
    assert (counts.status, counts.gold, counts.missed) == (1, 0, 4)
    assert re.fullmatch(reason, counts.reason)


def test_words_of_equal_text_are_equal():
    gold, output = "(NP (CD 1\\/2) ('' ''))", '(NP (CD 1/2) (X "))'
    assert figures(output, gold) == (1, 1, 1, 0)
    assert counts_of("(NP (CD 1/3) ('' ''))", gold).status == 1


def test_equal_words():
    parameters = parse_parameters(["EQ_WORD dog cat"], "")
    assert counts_of(GOLD.replace("cat", "dog"), parameters=parameters).status == 0
    assert counts_of(GOLD.replace("cat", "cow"), parameters=parameters).status == 1


def test_punctuation_with_a_wrong_tag_is_put_back():
    output = GOLD.replace("(. .)", "(NN .)").replace("(VP", "(X")
    counts = counts_of(output)
    assert (counts.status, counts.words, counts.tags, counts.put_back) == (0, 5, 4, True)
    assert figures(output) == (3, 4, 4, 0), "S spans the full stop in both trees"
    assert counts_of(GOLD.replace("(NN cat)", "(, cat)")).words == 4
    # A lost full stop is no wrong tag: the other words are the same, and nothing is put back.
    assert counts_of(GOLD.replace("(. .)", ""))[:4] == (0, 5, 4, 4)


def test_equal_numbers_of_other_words_stay_an_error():
    output = GOLD.replace("(. .)", "(NN .)").replace("(NN cat)", "(, cat)")
    assert counts_of(output).reason == "'sat', not 'cat'"


def test_quotation_marks_are_put_back_as_evalb_does_it():
    parameters = parse_parameters(evalb("new.prm"), "new.prm")
    gold = "(S (NP (NNS boys) (POS ')) (VP (VBD ran) (NP ('' '))) (. .))"
    output = gold.replace("(POS ')", "('' ')")
    counts = counts_of(output, gold, parameters)
    assert (counts.status, counts.words, counts.tags, counts.put_back) == (0, 3, 2, False)
    assert counts_of(gold, output, parameters)[:4] == (0, 5, 3, counts.matched)
    assert counts_of(output, gold).put_back, "COLLINS has no labels of quotation marks"
    assert counts_of(output.replace("''", "."), gold, parameters).put_back, "a full stop is none"
    dash = gold.replace("(POS ')", "(: --)")
    assert counts_of(dash.replace("(:", "(NN"), dash, parameters).put_back, "a dash is none"


def test_the_second_summary_takes_the_length_with_punctuation():
    score = bracket_scores([GOLD, GOLD], [GOLD, None], COLLINS._replace(cutoff=5))
    assert (score.short.sentences, score.short.skipped) == (2, 1)
    assert "up_to_5" in score.as_object()
    assert bracket_scores([GOLD], [GOLD], COLLINS._replace(cutoff=4)).short.sentences == 0


def test_nothing_right_is_no_error():
    score = bracket_scores([GOLD], [None])
    assert score.totals[:4] == (0, 0, 0, 0)
    assert bracket_scores([GOLD], ["(X (DT the) (NN cat) (VBD sat) (RB down))"]).f1 == 0


# ---- parameters


def test_the_parameters_of_collins_are_built_in():
    read = parse_parameters(evalb("COLLINS.prm"), "folder/other.prm")
    assert read == COLLINS._replace(name="other")
    assert read.signature == COLLINS.signature == "COLLINS"
    new = parse_parameters(evalb("new.prm"), "new.prm")
    assert new.deleted_labels - COLLINS.deleted_labels == {"S1", "?", "!"}
    assert new.quote_labels == {"``", "''", "POS", "NN", "CD", "VBZ", ":"}
    assert new.signature.startswith("new-")
    assert new.signature != new._replace(cutoff=41).signature


def test_every_key_is_read():
    lines = ["# DELETE_LABEL X", "", "  DEBUG 2", "MAX_ERROR 10", "CUTOFF_LEN 7", "LABELED 0  ", "DELETE_LABEL\tA"]
    read = parse_parameters([*lines, "DELETE_LABEL_FOR_LENGTH B", "EQ_LABEL A C", "EQ_WORD  x y"], "p.prm")
    assert read[:5] == ("p", {"A"}, {"B"}, {("A", "C"), ("C", "A")}, {("x", "y"), ("y", "x")})
    assert read[5:] == (7, False, frozenset())
    assert read.deleted_phrases == {"A", "C"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DELETE_LABELS A", "p.prm: line 2: DELETE_LABELS is not a parameter; the parameters are CUTOFF_LEN"),
        ("DELETE_LABEL", "p.prm: line 2: DELETE_LABEL : write DELETE_LABEL with one label"),
        ("DELETE_LABEL A B", "line 2: DELETE_LABEL A B: write"),
        ("EQ_LABEL A", "line 2: EQ_LABEL A: write EQ_LABEL with two labels"),
        ("CUTOFF_LEN forty", "line 2: CUTOFF_LEN forty: write CUTOFF_LEN with a number of words"),
        ("LABELED yes", "line 2: LABELED yes: write LABELED with 1, or 0"),
    ],
)
def test_wrong_parameters_are_named(line, message):
    with pytest.raises(ValueError, match=message):
        parse_parameters(["DELETE_LABEL TOP", line], "p.prm")


# ---- corpora


def test_unequal_numbers_and_broken_gold_trees_are_refused():
    with pytest.raises(ValueError, match="the output has 1 sentences but the reference 2"):
        count_sentences([GOLD, GOLD], [GOLD])
    with pytest.raises(ValueError, match=r"sentence 2 of the reference: the text: the tree .* lacks a closing"):
        count_sentences([GOLD, GOLD[:-1]], [GOLD, GOLD])
    with pytest.raises(ValueError, match="no trees"):
        bracket_scores([], [])
    with pytest.raises(ValueError, match="bootstrap is 1"):
        bracket_scores([GOLD], [GOLD], bootstrap=1)


def test_sentences_that_are_not_scored_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        bracket_scores([GOLD] * 3, [GOLD] * 3)
        assert not caplog.records
        bracket_scores([GOLD] * 9, [GOLD, None, GOLD.replace("cat", "dog"), *[GOLD[:-1]] * 6])
    (record,) = caplog.records
    assert "8 of 9 sentences of the output are not scored" in record.getMessage()
    assert "(sentence 2: no words; sentence 3: 'dog', not 'cat'; sentence 4: " in record.getMessage()
    assert "sentence 6: " in record.getMessage()
    assert "sentence 7: " not in record.getMessage()


def test_an_interval_holds_the_score_and_repeats(damage):
    gold, output = map(as_lines, damage)
    first, again = (bracket_scores(gold, output, bootstrap=300) for _ in range(2))
    assert first == again
    assert first.low < first.f1 < first.high
    assert first.signature.startswith("brackets|parameters:COLLINS|bs:300|seed:12345|version:")
    quarter = bracket_scores(gold[:250], output[:250], bootstrap=300)
    # A quarter of the sentences, twice the width; chance may move that by a half either way.
    assert 1.3 < (quarter.high - quarter.low) / (first.high - first.low) < 3


def test_a_paired_test_tells_better_from_equal(damage):
    gold, output = as_lines(damage[0]), as_lines(damage[1])
    better = [tree if place % 3 else other for place, (tree, other) in enumerate(zip(gold, output, strict=True))]
    comparison = compare_brackets([output, better, output], gold, bootstrap=200)
    by_better, by_itself = comparison.differences
    assert by_better.delta == pytest.approx(by_better.score.f1 - comparison.baseline.f1)
    assert by_better.delta > 1
    assert by_better.p < 0.01
    assert (by_itself.delta, by_itself.p) == (0, 1)
    assert comparison.baseline == bracket_scores(gold, output, bootstrap=200)


# ---- files


def test_trees_over_several_lines_and_trees_a_line_are_the_same_sentences():
    lines = [
        "",
        "( (S ",
        "   (NP (DT the) (NN cat))",
        "   (VP (VBD sat) (ADVP (RB down))) (. .)) )",
        "",
        "( (X (UH oh)",
        ") )",
    ]
    gold = read_gold_trees(lines, "gold.mrg")
    assert [format_tree(tree)[:5] for tree in gold.sentences] == ["( (S ", "( (X "]
    one_a_line = [GOLD, "(X (UH oh))"]
    assert read_output_trees(one_a_line, "output", gold) == one_a_line
    assert read_output_trees(lines, "output", gold) == gold.sentences
    assert read_output_trees(["", ""], "output", gold) == ["", ""]
    assert bracket_scores(gold.sentences, one_a_line).f1 == 100
    gold = read_gold_trees(one_a_line, "gold")
    assert [format_tree(tree)[:5] for tree in read_output_trees(lines, "o", gold)] == ["( (S ", "( (X "]


def test_empty_lines_and_comments_of_gold_are_no_sentences():
    lines = ["# of a treebank", GOLD, "", "(X (UH oh)) (X (UH oh))"]
    gold = read_gold_trees(lines, "gold")
    assert gold.sentences == [lines[1], lines[3]]
    assert read_output_trees(lines, "output", gold) == gold.sentences
    assert read_output_trees(["", lines[1], "", ""], "output", gold) == [lines[1], ""]
    assert read_output_trees([lines[1], ""], "output", gold) == [lines[1], ""]
    assert read_output_trees([lines[1], "", lines[3]], "output", gold) == gold.sentences


def test_broken_lines_of_an_output_are_sentences():
    gold = read_gold_trees([GOLD, GOLD], "gold")
    broken = [GOLD[:-1], "%"]
    assert read_output_trees(broken, "output", gold) == broken


def test_other_numbers_of_sentences_are_refused():
    gold = read_gold_trees([GOLD, GOLD], "gold")
    with pytest.raises(ValueError, match="output has 3 lines with 3 sentences, but the reference has 2;"):
        read_output_trees([GOLD] * 3, "output", gold)
    with pytest.raises(ValueError, match="output: the tree that begins on line 3 lacks a closing"):
        read_output_trees([GOLD, GOLD, GOLD[:-1]], "output", gold)
    with pytest.raises(ValueError, match="gold: the tree that begins on line 2 lacks a closing"):
        read_gold_trees([GOLD, GOLD[:-1]], "gold")
