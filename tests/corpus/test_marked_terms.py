"""Marked terms in the store: what is marked stands in the target, and everything else stays as it is."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from transduce.corpus import DataSpec, PreparedCorpus, Tsv, prepare
from transduce.corpus.marked_terms import MarkedTerms
from transduce.text.subwords import Bpe

NOUNS = {"dog": "Hund", "cat": "Katze", "owl": "Eule", "mole": "Maulwurf", "newt": "Molch", "pig": "Schwein"} | {
    f"{one}{other}x": f"{one.upper()}{other}z" for one in "bdfghjk" for other in "aeiouyw"
}
SUBWORDS = Bpe(size=330)
TEXT = re.compile(r"(<term:begin>|<term:end>)")


def pairs(count: int = 400) -> list[tuple[str, str]]:
    drawn = random.Random(3)
    chosen = [drawn.sample(sorted(NOUNS), drawn.randint(1, 2)) for _ in range(count)]
    return [
        ("so the " + " and ".join(words) + " ran", "so das " + " und ".join(NOUNS[word] for word in words) + " lief")
        for words in chosen
    ]


def data(folder: Path, **changes: object) -> DataSpec:
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs()), "utf-8")
    return DataSpec(train=(Tsv(tsv=str(folder / "pairs.tsv")),), **changes)  # type: ignore[arg-type]


def prepared(folder: Path, spec: DataSpec, subwords: Bpe = SUBWORDS) -> PreparedCorpus:
    said: list[str] = []
    made = prepare(spec, subwords, folder / "store", threads=1, say=said.append)
    (folder / "said").write_text("\n".join(said))
    return made


def sides(store: PreparedCorpus, number: int) -> tuple[str, str]:
    """Source and target as text, marks included."""
    source = store.source.readable_subwords(store.train.sentence("source", number))
    (target,) = store.target.decode([store.train.sentence("target", number)])
    return "".join(source).replace("▁", " "), target


def test_marked_words_stand_in_the_target_and_the_rest_is_unchanged(tmp_path: Path) -> None:
    made = prepared(tmp_path, data(tmp_path, terms=MarkedTerms(share=1.0)))
    real = made_up = 0
    for number, (source, target) in enumerate(pairs()):
        line, translation = sides(made, number)
        parts = TEXT.split(line)
        terms = [part.strip() for part in parts[2::4]]
        assert len(terms) >= 1
        assert parts[1::4] == ["<term:begin>"] * len(terms)
        assert parts[3::4] == ["<term:end>"] * len(terms)
        assert all(term in translation.split() for term in terms)
        words = source.split()
        kept = " ".join(parts[0::4]).split()
        nouns = [word for word in words if word in NOUNS]
        assert [word for word in kept if word not in NOUNS] == [word for word in words if word not in NOUNS]
        replaced = [noun for noun in nouns if noun not in kept]
        assert len(replaced) == len(terms)
        expected = dict(zip((NOUNS[noun] for noun in replaced), terms, strict=True))
        assert translation.split() == [expected.get(word, word) for word in target.split()]
        made_up += sum(term not in NOUNS.values() for term in terms)
        real += sum(term in NOUNS.values() for term in terms)
    assert 0.35 < made_up / (made_up + real) < 0.6  # half, of which some are words by chance
    assert "terms are marked in 400 pairs" in (tmp_path / "said").read_text()


def test_a_share_of_the_pairs_is_marked_and_the_others_are_as_without(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("some", "none")]
    for folder in folders:
        folder.mkdir()
    some = prepared(folders[0], data(folders[0], terms=MarkedTerms(share=0.3)), Bpe(size=332))
    none = prepared(folders[1], data(folders[1]), Bpe(size=330))  # two tokens less, as there are no marks
    marked = [number for number in range(400) if "<term" in sides(some, number)[0]]
    assert 80 < len(marked) < 160
    for number in set(range(400)) - set(marked):
        assert sides(some, number) == sides(none, number)
    assert none.source.size == some.source.size - 2


def test_marks_stand_behind_the_tags_of_directions_and_each_direction_has_its_own_links(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs()), "utf-8")
    both = DataSpec(
        source_language="en",
        target_language="de",
        train=(Tsv(tsv=str(tmp_path / "pairs.tsv"), direction="both"),),
        terms=MarkedTerms(share=1.0),
    )
    made = prepared(tmp_path, both)
    assert list(made.source.tags) == ["to:de", "to:en", "term:begin", "term:end"]
    for number in (0, 399, 400, 799):
        line, translation = sides(made, number)
        assert line.startswith("<to:de>" if number < 400 else "<to:en>")
        term = TEXT.split(line)[2].strip()
        assert term in translation.split()


def test_subword_dropout_keeps_marks_in_their_places(tmp_path: Path) -> None:
    made = prepared(tmp_path, data(tmp_path, terms=MarkedTerms(share=0.5)), Bpe(size=330, dropout=0.4))
    epochs = [made.train.in_epoch(1, number) for number in range(2)]
    texts = [
        [
            "".join(made.source.readable_subwords(store.sentence("source", number))).replace("▁", " ")
            for number in range(400)
        ]
        for store in (made.train, *epochs)
    ]
    assert texts[0] == texts[1] == texts[2]
    ids = [np.concatenate([store.sentence("source", number) for number in range(400)]) for store in epochs]
    assert len(ids[0]) != len(ids[1])


def test_terms_need_a_share_of_the_pairs() -> None:
    for share in (0.0, 1.5):
        with pytest.raises(ValueError, match="share"):
            MarkedTerms(share=share)
