"""Corpora of several directions and tags: what a recipe means, what the store holds, and the mixture of an epoch."""

import gzip
from collections import Counter

import numpy as np
import pytest

from log_records import logged_lines
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.mixture import with_temperature
from transduce.corpus.planner import Planner
from transduce.corpus.readers import read_pairs
from transduce.corpus.store.preparation import prepare
from transduce.corpus.store.token_store import CorpusPart
from transduce.settings import validated
from transduce.text.subword_training import Bpe
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import share_subwords

TMX = """<tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>pig</seg></tuv>
<tuv xml:lang="de"><seg>schwein</seg></tuv></tu></body></tmx>"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.en").write_text("the owl saw a mole\nowl\n")
    (tmp_path / "a.de").write_text("eule sah maulwurf\neule\n")
    (tmp_path / "b.tsv").write_text("pig\tschwein\n")
    (tmp_path / "c.fr").write_bytes(gzip.compress(b"hibou\ntaupe\nchat\n"))
    (tmp_path / "c.en").write_text("owl\nmole\ncat\n")
    (tmp_path / "d.tmx").write_text(TMX)
    return tmp_path


@pytest.fixture
def data_of(folder):
    """Returns the `data` section of a mapping; `a`, `b`, `c` and `d` name the corpora of the folder."""
    corpora = {
        "a": {"source": str(folder / "a.en"), "target": str(folder / "a.de")},
        "b": {"tsv": str(folder / "b.tsv")},
        "c": {"source": str(folder / "c.fr"), "target": str(folder / "c.en"), "source_language": "fr"},
        "d": {"tmx": str(folder / "d.tmx")},
        "embedded": {"embedded": "test"},
    }
    corpora["c"]["target_language"] = "en"

    def corpus(named):
        name, keys = named if isinstance(named, tuple) else (named, {})
        return {**corpora[name], **keys}

    def read(train, validation=None, test=None, **keys):
        values = {"train": [corpus(one) for one in train], "source_language": "en", "target_language": "de", **keys}
        if validation:
            values["validation"] = [corpus(one) for one in validation]
        values["test"] = {name: corpus(one) for name, one in (test or {}).items()}
        return validated(DataSpec, values, place="recipe")

    return read


@pytest.fixture
def store_of(folder):
    def store(data, spec=None, **options):
        with logged_lines() as lines:
            prepared = prepare(data, spec or Bpe(size=280), folder / "store", threads=1, **options)
        return prepared, lines

    return store


def sentences(prepared, side="source"):
    vocabulary = getattr(prepared, side)
    ids = [prepared.train.sentence(side, number) for number in range(len(prepared.train))]
    tags = {token: tag for tag, token in prepared.source.tags.items()}
    fronts = [[tags[token] for token in sentence.tolist() if token in tags] for sentence in ids]
    return list(zip(fronts, vocabulary.decode(ids), strict=True))


def test_a_recipe_of_one_direction_has_no_tags_and_no_shares(data_of, store_of):
    data = data_of(["a", ("b", {"weight": 2.0})])
    prepared, lines = store_of(data)
    assert prepared.source.tags == {}
    assert not any("of an epoch" in line for line in lines)


@pytest.mark.parametrize("name", ["a", "b", "d", "embedded"])
def test_both_makes_two_corpora_the_second_with_exchanged_sides(data_of, name):
    data = data_of([(name, {"direction": "both"})])
    assert [str(direction) for direction in data.directions] == ["en-de", "de-en"]
    forward, backward = (list(read_pairs(corpus)) for corpus in data.train)
    assert backward == [(target, source) for source, target in forward]
    assert forward == list(read_pairs(data_of([name]).train[0]))
    assert validated(DataSpec, data.as_dictionary(), place="again") == data


def test_sources_begin_with_the_target_language_and_then_the_tag(data_of, store_of):
    data = data_of([("a", {"direction": "both"}), "c", ("b", {"tag": "synthetic"})], ratio=None)
    prepared, lines = store_of(data, Bpe(size=300, shared=False))
    assert sentences(prepared) == [
        (["to:de"], "the owl saw a mole"),
        (["to:de"], "owl"),
        (["to:en"], "eule sah maulwurf"),
        (["to:en"], "eule"),
        (["to:en"], "hibou"),
        (["to:en"], "taupe"),
        (["to:en"], "chat"),
        (["to:de", "tag:synthetic"], "pig"),
    ]
    assert [text for tags, text in sentences(prepared, "target")][-1] == "schwein"
    assert list(prepared.source.tags) == ["to:de", "to:en", "tag:synthetic"]
    assert prepared.target.tags == {}
    assert lines[-3:] == [
        "en-de: 3 pairs, 37.5% of an epoch",
        "de-en: 2 pairs, 25.0% of an epoch",
        "fr-en: 3 pairs, 37.5% of an epoch",
    ]


def test_a_shared_vocabulary_has_the_size_of_the_recipe_tags_included(data_of, store_of):
    prepared, _ = store_of(data_of([("embedded", {"direction": "both"})]), Bpe(size=300))
    assert share_subwords((prepared.source, prepared.target))
    assert prepared.source.size == 300


def test_subword_dropout_keeps_the_tags(data_of, store_of):
    data = data_of([("embedded", {"direction": "both", "tag": "x"})])
    prepared, _ = store_of(data, Bpe(size=400, dropout=0.3))
    epoch, tags = prepared.train.in_epoch(1, 2), prepared.source.tags
    numbers = [0, len(prepared.train) - 1]
    for number, front in zip(numbers, (["to:de", "tag:x"], ["to:en", "tag:x"]), strict=True):
        ids = epoch.sentence("source", number).tolist()
        assert ids[:2] == [tags[tag] for tag in front]
        assert not set(ids[2:]) & set(tags.values())
        assert not set(epoch.sentence("target", number).tolist()) & set(tags.values())
    plain = prepared.train
    assert any(len(epoch.sentence("source", n)) != len(plain.sentence("source", n)) for n in range(50))


def test_tags_count_for_the_longest_source(data_of, store_of):
    length = len(Subwords.learn([], Bpe(size=259)).encode(["the owl saw a mole"])[0])
    for longest, kept in ((length + 1, 4), (length, 3)):
        data = data_of([("a", {"direction": "both"})], max_length=longest, ratio=None)
        assert len(store_of(data, Bpe(size=261))[0].train) == kept


def test_the_store_is_made_anew_where_a_language_a_tag_or_the_temperature_changes(data_of, store_of):
    made = [
        store_of(data_of(train, **keys))[0].fingerprint
        for train, keys in (
            ([("a", {"direction": "both"})], {}),
            ([("a", {"direction": "both"})], {"target_language": "nl"}),
            ([("a", {"direction": "both"})], {"temperature": 2.0}),
            ([("a", {"direction": "both", "tag": "x"})], {}),
            (["a"], {}),
        )
    ]
    assert len(set(made)) == 5


def test_subwords_of_another_model_must_have_the_tags(data_of, store_of):
    plain = Subwords.learn(["owl"], Bpe(size=270))
    several = plain.with_tags(["to:de", "to:en"])
    with pytest.raises(ValueError, match=r"--from: a.en: .*no tag to:de, its tags: none"):
        store_of(data_of([("a", {"direction": "both"})]), existing_subwords=(plain, plain))
    with pytest.raises(ValueError, match=r"--from: a.en: .*no tag to:nl, its tags: to:de, to:en"):
        store_of(data_of(["a"], target_language="nl"), existing_subwords=(several, several))
    # A model of several directions is told the language of the only one that it is trained on now.
    prepared, _ = store_of(data_of(["a"]), existing_subwords=(several, several))
    assert [tags for tags, _ in sentences(prepared)] == [["to:de"], ["to:de"]]


BOTH = ("a", {"direction": "both"})
INTO_DUTCH = ("a", {"target_language": "nl"})


@pytest.mark.parametrize(
    ("message", "train", "keys"),
    [
        ("need `source_language` and `target_language`", [BOTH], {"target_language": None}),
        ("need `source_language` and `target_language`", ["a", "c"], {"source_language": None}),
        ("`f r` is not a code of a language", ["a", ("c", {"source_language": "f r"})], {}),
        ("from en to en", [BOTH], {"target_language": "en"}),
        ("`temperature` mixes several directions", ["a"], {"temperature": 2.0}),
        ("no training corpus has the target language en", ["a", INTO_DUTCH], {"validation": ["c"]}),
        (
            "`tag: news`, and the model learns the tags syn: give",
            [("a", {"tag": "syn"})],
            {"test": {"t": ("a", {"tag": "news"})}},
        ),
        (
            "`data.validation` .a.en. has `tag: null`, and the model learns the tags x: give",
            [("a", {"tag": "x"})],
            {"validation": ["a"]},
        ),
        (
            "`data.test.t` .a.de. translates de-en, and the model learns en-de alone",
            ["a"],
            {"test": {"t": ("a", {"direction": "backward"})}},
        ),
        ("two test sets have the name `t-en-de`", ["a"], {"test": {"t-en-de": "b", "t": BOTH}}),
        ('`train.0.tag` is "two words"', [("a", {"tag": "two words"})], {}),
    ],
)
def test_what_a_model_could_not_be_told_is_refused(data_of, message, train, keys):
    with pytest.raises(ValueError, match=message):
        data_of(train, **keys).check_held_out()


def test_test_sets_of_both_directions_have_the_languages_in_their_names(data_of):
    data = data_of([("a", {"direction": "both"})], test={"t": ("b", {"direction": "both"}), "u": "c"})
    assert list(data.test) == ["t-en-de", "t-de-en", "u"]
    assert [str(data.direction_of(corpus)) for corpus in data.test.values()] == ["en-de", "de-en", "fr-en"]


def test_one_validation_stays_one_and_a_list_is_several(data_of):
    assert len(data_of([("a", {"direction": "both"})], validation=[("b", {"direction": "both"})]).validations) == 2
    single = validated(DataSpec, {"train": {"tsv": "t"}, "validation": {"tsv": "v"}}, place="recipe")
    assert single.validation.tsv == "v"
    assert single.validations == (single.validation,)
    with pytest.raises(ValueError, match=r"unknown key `validation.1.tvs`; did you mean `validation.1.tsv`"):
        validated(DataSpec, {"train": {"tsv": "t"}, "validation": [{"tsv": "v"}, {"tsv": "v", "tvs": 1}]}, place="r")
    with pytest.raises(ValueError, match="validation"):
        validated(DataSpec, {"train": {"tsv": "t"}, "validation": []}, place="r")


def test_the_temperature_makes_shares_of_directions_and_keeps_weights_within_them():
    parts = [CorpusPart(900, 1.0), CorpusPart(50, 2.0), CorpusPart(10, 1.0), CorpusPart(0, 1.0)]
    directions = ["big", "big", "small", "empty"]
    uses = [900.0, 100.0, 10.0]
    for temperature in (1.0, 2.0, 5.0, 1000.0):
        mixed = with_temperature(parts, directions, temperature)
        assert [part.pairs for part in mixed] == [900, 50, 10, 0]
        used = [part.pairs * part.weight for part in mixed]
        assert sum(used) == pytest.approx(sum(uses))
        assert used[0] / used[1] == pytest.approx(9.0)
        expected = (1000.0 / 10.0) ** (1.0 / temperature)
        assert (used[0] + used[1]) / used[2] == pytest.approx(expected)
    assert with_temperature(parts, directions, None) == tuple(parts)
    # At most 10,000 uses of a pair, which a store can hold.
    rare = with_temperature([CorpusPart(10**6, 1.0), CorpusPart(1, 1.0)], ["big", "small"], 1000.0)
    assert rare[1].weight == 10_000


def test_an_epoch_uses_the_shares_and_can_be_entered_anywhere(data_of, store_of, folder):
    lines = [f"w{number} owl" for number in range(400)]
    (folder / "a.en").write_text("".join(f"{line}\n" for line in lines))
    (folder / "a.de").write_text("".join(f"{line}e\n" for line in lines))
    prepared, said = store_of(data_of(["a", ("c", {"weight": 2.0})], temperature=2.0, ratio=None), Bpe(size=300))
    assert said[-2:] == ["en-de: 400 pairs, 89.1% of an epoch", "fr-en: 3 pairs, 10.9% of an epoch"]
    planner = Planner(prepared.train, batch_tokens=128, micro_batches=1, seed=3)
    tags, counts, steps = prepared.source.tags, Counter(), []
    for step in planner.steps():
        if step.epoch:
            break
        steps.append(step)
        counts.update(row[0] for batch in step.micro_batches for row in batch.source.tolist())
    assert abs(counts[tags["to:de"]] - 0.891 * 406) <= 2
    assert abs(counts[tags["to:en"]] - 0.109 * 406) <= 2
    resumed = next(planner.steps(steps[4].position))
    assert all(np.array_equal(*pair) for pair in zip(resumed.micro_batches[0], steps[5].micro_batches[0], strict=True))
