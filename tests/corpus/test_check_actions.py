"""`data.checks`: which pairs are dropped, which corpora are refused, and what is counted."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from transduce.corpus.check_actions import _dropped
from transduce.corpus.corpus_kinds import Files, Tsv
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.store.preparation import PreparedCorpus, open_store, prepare
from transduce.corpus.store.store_description import checksums_of_corpora, fingerprint_of
from transduce.embedded import split
from transduce.inspection.inspector import Inspection
from transduce.inspection.line_checks import Check
from transduce.settings import validated
from transduce.text.subword_training import Bpe

SUBWORDS = Bpe(size=400)
CLEAN = [(pair.source, pair.target) for pair in split("train", seed=5, count=150)]
OTHER = [(pair.source, pair.target) for pair in split("test", seed=5, count=120)]


def corpus(folder: Path, pairs: list[tuple[str, str]], name: str = "train.tsv") -> Tsv:
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    return Tsv(tsv=str(path))


def prepared(folder: Path, data: DataSpec) -> PreparedCorpus:
    return prepare(data, SUBWORDS, folder / "store", threads=1)


def sources(store: PreparedCorpus) -> list[str]:
    return [store.source.decode([store.train.sentence("source", n).tolist()])[0] for n in range(len(store.train))]


def test_dropped_pairs_are_neither_learnt_nor_encoded_but_counted(tmp_path, log_lines):
    pairs = [*CLEAN[:50], CLEAN[3], ("Qqqq qqqq.", "Qqqq qqqq."), *CLEAN[50:], ("In 1984.", "In 1985.")]
    checks = {"duplicate": "drop", "copied": "drop", "numbers": "drop"}
    store = prepared(tmp_path, DataSpec(train=(corpus(tmp_path, pairs),), checks=checks))
    assert sources(store) == [source for source, _ in CLEAN]
    assert log_lines[0] == "checking the corpus"
    assert log_lines[-5:] == [
        "150 of 153 pairs kept",
        "1 dropped by `checks`, with a target equal to its source: train.tsv:52",
        "1 dropped by `checks`, that repeat an earlier pair: train.tsv:51",
        "1 dropped by `checks`, with numbers that differ between the sides: train.tsv:153",
        "warning: only 150 pairs; a new model needs thousands to translate other text (docs/guides/few-texts.md)",
    ]
    assert open_store(tmp_path / "store").report == store.report
    assert store.report.counts()[1] == "1 dropped by `checks`, with a target equal to its source"
    clean = prepared(tmp_path / "clean", DataSpec(train=(corpus(tmp_path, CLEAN, "clean.tsv"),)))
    assert store.source.as_json() == clean.source.as_json()


def test_a_pair_that_repeats_a_dropped_one_is_kept_in_its_place(tmp_path):
    source = CLEAN[0][0]
    pairs = [(source, source), *CLEAN, (source, "Zu spät."), (source, "Auch zu spät.")]
    checks = {"copied": "drop", "several_targets": "drop"}
    store = prepared(tmp_path, DataSpec(train=(corpus(tmp_path, pairs),), checks=checks))
    assert sources(store) == [source for source, _ in CLEAN]
    numbers = {Check.COPY: [1], Check.DUPLICATE: [3], Check.NEAR_DUPLICATE: [4], Check.SEVERAL_TARGETS: [5]}
    firsts = {Check.DUPLICATE: [1], Check.NEAR_DUPLICATE: [1], Check.SEVERAL_TARGETS: [1]}
    arrays = ({check: np.array(some) for check, some in each.items()} for each in (numbers, firsts))
    inspection = Inspection(5, *arrays, (np.zeros(0),) * 2, ({}, {}), ({}, {}), (), {})
    assert _dropped(inspection, numbers) == {1: Check.COPY, 4: Check.NEAR_DUPLICATE, 5: Check.SEVERAL_TARGETS}
    assert _dropped(inspection, firsts) == {n: check for check, (n,) in numbers.items() if n > 1}


def test_without_checks_nothing_is_said_and_nothing_dropped(tmp_path, log_lines):
    pairs = [*CLEAN, CLEAN[3]]
    assert len(prepared(tmp_path, DataSpec(train=(corpus(tmp_path, pairs),))).train) == 151
    assert "checking the corpus" not in log_lines


def test_refuse_names_the_lines_and_what_to_do(tmp_path):
    pairs = [*CLEAN, ("In 1984.", "In 1985."), ("In 1994.", "In 1995.")]
    data = DataSpec(train=(corpus(tmp_path, pairs),), checks={"numbers": "refuse"})
    with pytest.raises(
        ValueError, match=r"train\.tsv\): 2 of 152 pairs with numbers .* \(first: 151, 152\), which .* `drop`"
    ):
        prepared(tmp_path, data)
    assert not (tmp_path / "store" / "store.json").exists()


def test_copies_throughout_are_refused_unless_allowed_or_few(tmp_path):
    copies = [(source, source) for source, _ in CLEAN]
    with pytest.raises(
        ValueError, match=r"the target is the source in 150 of 150 pairs; .* `checks: \{copied: keep\}`"
    ):
        prepared(tmp_path, DataSpec(train=(corpus(tmp_path, copies),)))
    with pytest.raises(ValueError, match=r"target is the source"):  # also as one of two corpora
        prepared(tmp_path, DataSpec(train=(corpus(tmp_path, CLEAN, "clean.tsv"), corpus(tmp_path, copies))))
    allowed = DataSpec(train=(corpus(tmp_path, copies),), checks={"copied": "keep"})
    assert len(prepared(tmp_path / "allowed", allowed).train) == 150
    assert len(prepared(tmp_path / "few", DataSpec(train=(corpus(tmp_path, copies[:99], "few.tsv"),))).train) == 99


@pytest.mark.parametrize("place", ["validation", "test"])
def test_a_held_out_set_within_training_is_refused_dropped_or_allowed(tmp_path, place):
    held_out = corpus(tmp_path, [(source.upper(), target) for source, target in CLEAN[:110]], "valid.tsv")
    sets = {"validation": held_out} if place == "validation" else {"test": {"news": held_out}}
    train = corpus(tmp_path, CLEAN[:100], "a.tsv"), corpus(tmp_path, CLEAN[100:], "b.tsv")
    name = r"the validation set" if place == "validation" else r"the test set news"
    with pytest.raises(ValueError, match=rf"the sources of 110 of 110 lines of {name} \(valid\.tsv\), which"):
        prepared(tmp_path, DataSpec(train=train, **sets))
    assert len(prepared(tmp_path / "1", DataSpec(train=train, **sets, checks={"overlap": "keep"})).train) == 150
    dropped = DataSpec(train=train, **sets, checks={"overlap": "drop"})
    assert sources(prepared(tmp_path / "2", dropped)) == [source for source, _ in CLEAN[110:]]
    with pytest.raises(ValueError, match=r"a\.tsv\): 100 of 100 pairs with a source of the validation or test set"):
        prepared(tmp_path, DataSpec(train=train, **sets, checks={"overlap": "refuse"}))


def test_a_few_lines_in_common_are_no_reason_to_refuse(tmp_path):
    held_out = corpus(tmp_path, [*OTHER, *CLEAN[:20]], "valid.tsv")
    assert len(prepared(tmp_path, DataSpec(train=(corpus(tmp_path, CLEAN),), validation=held_out)).train) == 150


def test_a_test_set_that_does_not_exist_yet_is_left_out(tmp_path):
    later = Tsv(tsv=str(tmp_path / "later.tsv"))
    data = DataSpec(train=(corpus(tmp_path, CLEAN),), test={"later": later}, checks={"overlap": "drop"})
    assert len(prepared(tmp_path, data).train) == 150


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"hub": "one/set", "split": "validation"}, {"hub": "one/set", "split": "test"}),
        ({"hub": "one/set"}, {"hub": "other/set"}),
        ({"embedded": "validation"}, {"embedded": "test"}),
        ({"tsv": "valid.tsv"}, {"tsv": "valid.tsv", "direction": "backward"}),
    ],
)
def test_another_held_out_set_changes_the_fingerprint(tmp_path, monkeypatch, before, after):
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path, OTHER, "valid.tsv")
    languages = {"source_language": "en", "target_language": "de", "checks": {"overlap": "drop"}}

    def fingerprint(held_out):
        values = {"train": {"tsv": corpus(tmp_path, CLEAN).tsv}, "test": {"one": held_out}, **languages}
        data = validated(DataSpec, values, place="data")
        return fingerprint_of(data, SUBWORDS, None, checksums_of_corpora(data, ()))

    assert fingerprint(before) == fingerprint(before) != fingerprint(after)


def test_checks_belong_to_the_fingerprint_and_with_overlap_the_held_out_files(tmp_path):
    def fingerprint(checks: dict[str, str]) -> str:
        data = DataSpec(train=(train,), validation=Tsv(tsv=str(tmp_path / "valid.tsv")), checks=checks)
        return fingerprint_of(data, SUBWORDS, None, checksums_of_corpora(data, ()))

    train = corpus(tmp_path, CLEAN)
    corpus(tmp_path, OTHER, "valid.tsv")
    before = {name: fingerprint(checks) for name, checks in CHECKS.items()}
    assert len(set(before.values())) == len(CHECKS)
    corpus(tmp_path, OTHER[:110], "valid.tsv")
    changed = {name for name, checks in CHECKS.items() if fingerprint(checks) != before[name]}
    assert changed == {"overlap"}


CHECKS = {"none": {}, "copied": {"copied": "drop"}, "overlap": {"overlap": "drop"}}


def test_checks_of_languages_need_the_extra(tmp_path, monkeypatch):
    data = DataSpec(train=(corpus(tmp_path, CLEAN),), checks={"wrong_language": "drop"})
    monkeypatch.setattr("transduce.corpus.check_actions.load_language_identifier", lambda: None)
    with pytest.raises(ValueError, match=r"`data\.checks\.wrong_language` .* `pip install '\.\[languages\]'`"):
        prepared(tmp_path, data)


def test_languages_are_those_of_the_recipe(tmp_path):
    pytest.importorskip("py3langid")
    pairs = [
        *CLEAN,
        ("Ein Mann mit einem Hut steht vor einem großen Haus.", "A man with a hat stands before a large house."),
    ]
    train = (corpus(tmp_path, pairs),)
    data = DataSpec(train=train, source_language="en", target_language="de", checks={"swapped": "drop"})
    assert sources(prepared(tmp_path, data)) == [source for source, _ in CLEAN]


def test_an_unknown_check_and_checks_of_trees_are_refused(tmp_path):
    with pytest.raises(ValidationError, match=r"`length` is not a check; there are empty, encoding"):
        DataSpec(train=(corpus(tmp_path, CLEAN),), checks={"length": "drop"})
    with pytest.raises(ValidationError, match=r"keep.*drop.*refuse"):
        DataSpec(train=(corpus(tmp_path, CLEAN),), checks={"copied": "warn"})
    with pytest.raises(ValidationError, match=r"`checks` is for translations"):
        DataSpec.model_validate({"train": {"embedded_trees": "train"}, "checks": {"copied": "drop"}})


def test_a_store_in_use_stays_where_held_out_sets_have_changed(tmp_path, log_lines):
    """A run goes on with its training pairs, which depend on the sets that it began with."""

    def made(*, in_use: bool) -> PreparedCorpus:
        data = DataSpec(train=(train,), test={"news": Tsv(tsv=str(tmp_path / "news.tsv"))}, checks={"overlap": "drop"})
        return prepare(data, SUBWORDS, tmp_path / "store", threads=1, in_use=in_use)

    train = corpus(tmp_path, CLEAN)
    corpus(tmp_path, CLEAN[:20], "news.tsv")
    first = made(in_use=False)
    assert len(first.train) == 130
    corpus(tmp_path, CLEAN[:30], "news.tsv")
    again = made(in_use=True)
    assert (again.fingerprint, len(again.train)) == (first.fingerprint, 130)
    assert log_lines[-1].startswith("validation or test sets have changed")
    (tmp_path / "news.tsv").unlink()
    assert made(in_use=True).fingerprint == first.fingerprint
    assert len(made(in_use=False).train) == 150
    corpus(tmp_path, CLEAN[:90])
    with pytest.raises(ValueError, match=r"the training data .* has changed"):
        made(in_use=True)


def test_a_held_out_set_that_cannot_be_read_is_an_error_where_the_recipe_compares_with_it(tmp_path):
    (tmp_path / "news.tsv").write_bytes(b"caf\xe9\tx\n")
    sets = {"test": {"news": Tsv(tsv=str(tmp_path / "news.tsv"))}}
    train = (corpus(tmp_path, CLEAN),)
    with pytest.raises(ValueError, match=r"news\.tsv"):
        prepared(tmp_path, DataSpec(train=train, **sets, checks={"overlap": "drop"}))
    assert len(prepared(tmp_path, DataSpec(train=train, **sets)).train) == 150


def test_languages_belong_to_the_fingerprint_where_checks_identify_them(tmp_path):
    def fingerprint(target: str, checks: dict[str, str]) -> str:
        data = DataSpec(train=(train,), source_language="en", target_language=target, checks=checks)
        return fingerprint_of(data, SUBWORDS, None, checksums_of_corpora(data, ()))

    train = corpus(tmp_path, CLEAN)
    checks = {"wrong_language": "drop"}
    assert fingerprint("de", checks) != fingerprint("nl", checks)
    assert fingerprint("de", {}) == fingerprint("nl", {})


def test_a_vocabulary_does_not_grow_by_dropped_pairs(tmp_path):
    base = prepared(tmp_path / "base", DataSpec(train=(corpus(tmp_path, OTHER, "base.tsv"),)))

    def grown(name: str, pairs: list[tuple[str, str]]) -> str:
        data = DataSpec(train=(corpus(tmp_path, pairs, f"{name}.tsv"),), checks={"copied": "drop"})
        existing, growth = (base.source, base.target), 30
        folder = tmp_path / name
        store = prepare(data, SUBWORDS, folder, threads=1, existing_subwords=existing, growth=growth)
        return store.source.as_json()

    copies = [("Qqxzqq qqxzqq.", "Qqxzqq qqxzqq.")] * 60
    assert grown("clean", CLEAN) == grown("dirty", [*CLEAN, *copies]) != base.source.as_json()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_exchanged_sides_are_named(tmp_path, log_lines, direction):
    pytest.importorskip("py3langid", reason="needs the extra languages")
    long = [pair for pair in split("train", seed=5, count=600) if min(len(pair.source), len(pair.target)) >= 25]
    pairs = [(pair.source, pair.target) if direction == "forward" else (pair.target, pair.source) for pair in long]
    assert len(pairs) >= 100
    languages = {"source_language": "en", "target_language": "de"}
    prepared(tmp_path, DataSpec(train=(corpus(tmp_path, pairs),), **languages))
    warned = [line for line in log_lines if "the sides seem exchanged" in line]
    assert len(warned) == (direction == "backward")
    assert all("give it `direction: backward` in `data.train`" in line for line in warned)  # of a TSV
    files = Files(source=str(tmp_path / "a"), target=str(tmp_path / "b"))
    for path, side in ((files.source, 0), (files.target, 1)):
        Path(path).write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    log_lines.clear()
    (tmp_path / "of-files").mkdir()
    prepared(tmp_path / "of-files", DataSpec(train=(files,), **languages))
    warned = [line for line in log_lines if "the sides seem exchanged" in line]
    assert len(warned) == (direction == "backward")
    assert all("exchange its `source` and `target` in `data.train`" in line for line in warned)


def test_pairs_whose_source_has_no_text_are_left_out_and_counted(tmp_path, log_lines):
    pairs = [*CLEAN, ("12 %", "12 %"), ("---", "nichts"), ("https://a.org", "Seite"), ("\u200b", "leer"), ("A", "1")]
    store = prepared(tmp_path, DataSpec(train=(corpus(tmp_path, pairs),)))
    assert sources(store)[-1] == "A"
    assert len(store.train) == 151
    assert (
        "4 dropped, whose source has no text to translate: train.tsv:151, train.tsv:152, train.tsv:153, …" in log_lines
    )
