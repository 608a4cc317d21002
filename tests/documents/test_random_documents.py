"""Property: whatever tags, entities and placeholders a document has, its translation has them all, and balanced."""

import random

import pytest
from document_checks import faults
from fake_translator import reversing, same
from hypothesis import given, settings
from hypothesis import strategies as st
from random_documents import SENTENCES, WRITERS, random_pieces

from transduce.documents.document import DocumentLanguages, TextFormat, plain
from transduce.documents.formats import read_document
from transduce.documents.sentence_translator import SentenceTranslator, translate_units


def translated(kind: str, source: bytes, translator: SentenceTranslator) -> bytes:
    document = read_document(source, TextFormat(kind.split()[0]), DocumentLanguages("en", "de"))
    return document.write(translate_units(document.units, translator).contents)


def words(kind: str, source: bytes) -> list[str]:
    """The text of each unit without white space; of XLIFF and TMX that of the sources."""
    document = read_document(source, TextFormat(kind.split()[0]), DocumentLanguages("en", "de"), replace=True)
    return ["".join(plain(unit.content).split()) for unit in document.units]


@pytest.mark.parametrize("kind", WRITERS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_nothing_is_lost(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    source = WRITERS[kind]([random_pieces(rng, SENTENCES) for _ in range(rng.randint(1, 4))])
    assert words(kind, source) == words(kind, translated(kind, source, same()))
    for translator in (same(), reversing(), reversing(aligned=False)):
        assert not faults(kind, source, translated(kind, source, translator)), source


@pytest.mark.parametrize("kind", WRITERS)
def test_the_checks_find_a_lost_placeholder(kind: str) -> None:
    rng = random.Random(3)
    source = WRITERS[kind]([random_pieces(rng, ("Take {0} of it.",))])
    other = WRITERS[kind]([random_pieces(random.Random(3), ("Take {1} of it.",))])
    assert faults(kind, translated(kind, source, same()), translated(kind, other, same()))
