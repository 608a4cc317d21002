"""Corpora of trees: what a recipe may name, which trees are read, and what a change of a file means."""

import gzip
import lzma

import pytest

from transduce.corpus.corpus_kinds import EmbeddedTrees, Trees
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.readers import read_pairs
from transduce.corpus.store.preparation import prepare
from transduce.corpus.store.store_description import checksums_of_corpora, fingerprint_of
from transduce.parsing.treebank_reader import read_treebank
from transduce.parsing.trees import format_tree
from transduce.settings import validated
from transduce.text.subword_training import Bpe
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.tree_linearisation import InOrder, TopDown

FIRST = "( (S (NP-SBJ (PRP It)) (VP (VBZ works) (NP (-NONE- *T*-1))) (. .)) )"
SECOND = "(HEADING (NN Results))"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bank" / "deeper").mkdir(parents=True)
    (tmp_path / "bank" / "a.mrg").write_text(f"{FIRST}\n\n{SECOND}\n")
    with gzip.open(tmp_path / "bank" / "deeper" / "b.mrg.gz", "wt") as file:
        file.write(FIRST.replace("It", "She") + "\n")
    return tmp_path / "bank"


def data(**values):
    return validated(DataSpec, {"source_language": "en", **values}, place="data")


def test_a_folder_and_its_gzipped_files_are_read_cleaned(folder):
    trees = list(map(format_tree, read_treebank(Trees(trees=str(folder)))))
    assert trees == [
        "(S (NP (PRP It)) (VP (VBZ works)) (. .))",
        "(HEADING (NN Results))",
        "(S (NP (PRP She)) (VP (VBZ works)) (. .))",
    ]


def test_links_in_a_folder_are_followed_and_end(folder, tmp_path):
    (folder / "deeper").rename(tmp_path / "elsewhere")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "linked" / "back").symlink_to(folder)
    (folder / "once-more").symlink_to(tmp_path / "elsewhere")
    assert len(list(read_treebank(Trees(trees=str(folder))))) == 3


def test_hidden_files_and_files_without_trees_are_left_out_of_a_folder(folder):
    for name in (".hidden.mrg", "a.mrg~", ".git/one.mrg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(SECOND)
    (folder / "README").write_text("About these trees\n")
    (folder / "empty.mrg").write_text("")
    (folder / "commented.mrg").write_text(f"% a comment\n\n{SECOND}\n")
    (folder / "marked.mrg").write_text(f"{SECOND}\n", "utf-8-sig")
    assert len(list(read_treebank(Trees(trees=str(folder))))) == 5
    with pytest.raises(ValueError, match=r"README: line 1 has 'About' outside of a tree"):
        list(read_treebank(Trees(trees=str(folder / "README"))))


def test_a_damaged_gzip_file_in_a_folder_is_named(folder):
    path = folder / "deeper" / "b.mrg.gz"
    path.write_bytes(path.read_bytes()[:15])
    with pytest.raises(ValueError, match=r"b\.mrg\.gz"):
        list(read_treebank(Trees(trees=str(folder))))


def test_trees_compressed_with_xz_are_in_a_folder_of_trees(folder):
    trees = list(read_treebank(Trees(trees=str(folder))))
    packed = folder / "deeper" / "b.mrg.gz"
    packed.with_name("b.mrg.xz").write_bytes(lzma.compress(gzip.decompress(packed.read_bytes())))
    packed.unlink()
    (folder / "guidelines.docx").write_bytes(b"PK\x03\x04 and so on")
    assert list(read_treebank(Trees(trees=str(folder)))) == trees


def test_labels_that_are_separators_are_kept(folder):
    (folder / "a.mrg").write_text("(S (= x) (NP (| y)))")
    assert list(map(format_tree, read_treebank(Trees(trees=str(folder / "a.mrg"))))) == ["(S (= x) (NP (| y)))"]


def test_trees_are_left_out_by_length_and_by_label(folder):
    file = str(folder / "a.mrg")
    assert len(list(read_treebank(Trees(trees=file, shortest=2)))) == 1
    assert len(list(read_treebank(Trees(trees=file, without=("HEADING",))))) == 1
    assert len(list(read_treebank(Trees(trees=file)))) == 2


@pytest.mark.parametrize(
    ("section", "entry", "symbols"),
    [
        ({}, {}, "(S (NP PRP )NP (VP VBZ )VP . )S"),
        ({"linearisation": {"kind": "in_order"}}, {}, "PRP (NP )NP (S VBZ (VP )VP . )S"),
        ({}, {"linearisation": {"kind": "top_down", "tags": "normalised"}}, "(S (NP XX )NP (VP XX )VP XX )S"),
    ],
)
def test_words_and_symbols_are_the_pairs(folder, section, entry, symbols):
    corpus = data(train=[{"trees": str(folder / "a.mrg"), "shortest": 2, **entry}], **section)
    assert list(read_pairs(corpus.train[0])) == [("It works .", symbols)]


def test_the_embedded_trees_have_the_words_of_the_embedded_source():
    corpus = data(train=[{"embedded_trees": "train"}], test={"novel": {"embedded_trees": "novel"}})
    assert corpus.tree_linearisation == TopDown()
    pairs = list(read_pairs(corpus.test["novel"]))
    assert len(pairs) == 1000
    assert all(
        source.count(" ") + 1 == sum(symbol[0] not in "()" for symbol in target.split()) for source, target in pairs
    )


@pytest.mark.parametrize(
    "other",
    [
        {"embedded": "validation"},
        {"embedded_trees": "validation", "linearisation": {"kind": "in_order"}},
    ],
)
def test_one_model_learns_trees_of_one_kind_or_translations(other):
    with pytest.raises(ValueError, match="all corpora are translations, or all are trees"):
        data(train=[{"embedded_trees": "train"}], validation=other)


def test_a_broken_tree_is_named_by_file_and_line(folder):
    (folder / "c.mrg").write_text(f"{FIRST}\n(S (NP (PRP It))) )\n")
    with pytest.raises(ValueError, match=r"c\.mrg: .*line 2"):
        list(read_treebank(Trees(trees=str(folder / "c.mrg"))))


def data_fingerprint(corpus):
    return fingerprint_of(corpus, Bpe(), None, checksums_of_corpora(corpus, []))


def test_a_change_of_any_file_is_another_corpus(folder):
    corpus = data(train=[{"trees": str(folder)}])
    before = data_fingerprint(corpus)
    assert data_fingerprint(data(train=[{"trees": str(folder)}])) == before
    assert data_fingerprint(data(train=[{"trees": str(folder), "shortest": 2}])) != before
    assert data_fingerprint(data(train=[{"trees": str(folder)}], linearisation={"kind": "in_order"})) != before
    (folder / "deeper" / "c.mrg").write_text(FIRST)
    assert data_fingerprint(corpus) != before


def test_the_target_side_has_whole_symbols(folder, tmp_path):
    corpus = data(train=[{"trees": str(folder), "linearisation": InOrder().as_dictionary()}], ratio=None)
    store = tmp_path / "store"
    store.mkdir()
    prepared = prepare(corpus, Bpe(size=300, shared=False), store, threads=1)
    assert isinstance(prepared.target, SymbolVocabulary)
    assert set(prepared.target.symbols[4:]) == {*". (HEADING (NP (S (VP )HEADING )NP )S )VP NN PRP VBZ".split()}
    assert len(prepared.train) == 3


def test_entries_are_told_apart_by_their_keys():
    assert isinstance(data(train=[{"embedded_trees": "test"}]).train[0], EmbeddedTrees)
    with pytest.raises(ValueError, match="embedded_trees"):
        data(train=[{"embedded_trees": "nothing"}])
