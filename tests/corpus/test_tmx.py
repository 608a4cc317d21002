"""Translation memories and tables of the hub: the texts of each pair, and the errors of files and tables."""

import gzip
import json
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from transduce.corpus.corpus_kinds import Hub, Tmx
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.pair_checks import Fault
from transduce.corpus.readers import read_pairs, read_parallel_text
from transduce.corpus.store.preparation import prepare
from transduce.recipe.recipe import load, without_training_paths
from transduce.settings import validated
from transduce.text.directions import Direction
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords

UNITS = """
<tu tuid="1"><note>of a menu</note>
  <tuv xml:lang="EN-us"><prop type="x">no text</prop><seg>Open the <bpt i="1">&lt;b&gt;</bpt>file<ept i="1">&lt;/b&gt;</ept>.</seg></tuv>
  <tuv xml:lang="de"><seg>
    Öffne die <it pos="begin">b</it>
    <hi>Datei<ut>u</ut></hi><ph>%s</ph>.
  </seg></tuv>
  <tuv xml:lang="fr"><seg>Ouvrez le fichier.</seg></tuv></tu>
<tu><tuv xml:lang="de-AT"><seg>Grüß
Gott &amp; Servus</seg></tuv><tuv xml:lang="en-GB"><seg>Hello</seg></tuv><tuv xml:lang="en"><seg> </seg></tuv>
<tuv xml:lang="en"><seg>Good day</seg></tuv></tu>
<tu><tuv lang="fr"><seg>seul</seg></tuv><tuv lang="eng"><seg>not en</seg></tuv></tu>
"""  # noqa: E501
TMX = '<?xml version="1.0" encoding="{}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/>'
READ = [("Open the file.", "Öffne die Datei."), ("Good day", "Grüß Gott & Servus"), ("", "")]


def memory(path: Path, units: str = UNITS, encoding: str = "utf-8", *, zipped: bool = False) -> Tmx:
    content = f"{TMX.format(encoding)}<body>{units}</body></tmx>".encode(encoding)
    path.write_bytes(gzip.compress(content) if zipped else content)
    return Tmx(tmx=str(path), languages=("en", "de"))


@pytest.mark.parametrize(("encoding", "zipped"), [("utf-8", False), ("utf-8", True), ("utf-16", False)])
def test_a_memory_gives_the_text_of_both_languages(tmp_path: Path, encoding: str, zipped: bool) -> None:
    corpus = memory(tmp_path / "a.tmx", encoding=encoding, zipped=zipped)
    assert list(read_pairs(corpus)) == READ
    assert list(read_pairs(corpus.model_copy(update={"languages": ("fr", "eng")}))) == [
        ("Ouvrez le fichier.", ""),
        ("", ""),
        ("seul", "not en"),
    ]


def test_the_units_of_a_namespace_are_units(tmp_path: Path) -> None:
    corpus = memory(tmp_path / "a.tmx")
    plain = (tmp_path / "a.tmx").read_text("utf-8")
    (tmp_path / "a.tmx").write_text(plain.replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" '), "utf-8")
    assert list(read_pairs(corpus)) == READ


def test_a_memory_is_trained_on(tmp_path: Path) -> None:
    named = {"train": {"tmx": memory(tmp_path / "a.tmx").tmx}, "source_language": "en", "target_language": "de"}
    data = validated(DataSpec, named, place="r")
    assert data.train == (memory(tmp_path / "a.tmx"),)
    store = tmp_path / "store"
    made = prepare(data, Bpe(size=300), store, threads=1)
    assert (made.report.read, made.report.kept) == (3, 2)
    assert made.report.places[Fault.EMPTY] == ["a.tmx:3"]
    other = data.model_copy(update={"train": (data.train[0].model_copy(update={"languages": ("en", "fr")}),)})
    with pytest.raises(ValueError, match="has changed since"):
        prepare(other, Bpe(size=300), store, threads=1, in_use=True)
    memory(tmp_path / "a.tmx", UNITS.replace("Good day", "Good bye"))
    with pytest.raises(ValueError, match="has changed since"):
        prepare(data, Bpe(size=300), store, threads=1, in_use=True)


def test_languages_that_are_not_those_of_the_recipe_are_refused(tmp_path: Path) -> None:
    exchanged = {"tmx": memory(tmp_path / "a.tmx").tmx, "languages": ["de", "en"]}
    named = {"source_language": "en", "target_language": "de"}
    message = r"by `languages` the corpus translates de-en, and by .* en-de: exchange one of them"
    with pytest.raises(ValueError, match=message):
        validated(DataSpec, {"train": exchanged, **named}, place="r")
    other = {**exchanged, "source_language": "de", "target_language": "en"}
    assert validated(DataSpec, {"train": other, **named}, place="r").directions == (Direction("de", "en"),)
    for codes in (["en-GB", "de-AT"], ["eng_Latn", "deu_Latn"]):
        memories = {**exchanged, "languages": codes}
        assert validated(DataSpec, {"train": memories, **named}, place="r").directions == (Direction("en", "de"),)


def test_units_without_a_side_are_left_out_of_a_test_set(tmp_path: Path) -> None:
    assert read_parallel_text(memory(tmp_path / "a.tmx")) == (["Open the file.", "Good day"], [READ[0][1], READ[1][1]])


def test_the_path_of_a_memory_is_relative_to_its_recipe_and_may_change(tmp_path: Path) -> None:
    content = "data: {train: {tmx: a.tmx}, source_language: en, target_language: de}\n"
    (tmp_path / "recipe.yaml").write_text(content, "utf-8")
    recipe = load(tmp_path / "recipe.yaml")
    assert recipe.data.train == (Tmx(tmx=str(tmp_path / "a.tmx"), languages=("en", "de")),)
    changed = load(tmp_path / "recipe.yaml", ["data.train={tmx: /b.tmx}"])
    assert changed.data.train == (Tmx(tmx="/b.tmx", languages=("en", "de")),)
    assert without_training_paths(recipe.as_dictionary()) == without_training_paths(changed.as_dictionary())


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ("<tu><tuv xml:lang='en'><seg>a</seg></tuv><tuv xml:lang='pt'/></tu>", "no unit with text in both en and de; it has en, pt"),  # noqa: E501
        ("", "no unit with text in both en and de; it has no language"),
        ("<tu>", "is not well-formed XML: mismatched tag: line 3, column .*; mend that place"),
        ("<tu>&nbsp;</tu>", "is not well-formed XML: undefined entity &nbsp;: line 3; mend that place"),
        ("<tu><tuv xml:lang='en'><seg>" + "<hi>" * 5000 + "</hi>" * 5000 + "</seg></tuv></tu>", "nested too deeply"),
    ],
)  # fmt: skip
def test_a_memory_without_both_languages_is_refused(tmp_path: Path, units: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_pairs(memory(tmp_path / "a.tmx", units)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\n", "not well-formed XML: syntax error: line 1"),
        (b"", "not well-formed XML: no element found"),
        (b"<html></html>", "is not TMX: its outermost element is <html>"),
        (gzip.compress(b"<tmx>" * 1000, mtime=0)[:-9], "is a damaged gzip file"),
        (b"BZh91AY&SY12", "is compressed with bzip2; unpack it"),
        (b"<?xml version='1.0' encoding='gb2312'?><tmx/>", "cannot be read: multi-byte.*iconv -t UTF-8"),
        (b"<?xml version='1.0' encoding='none'?><tmx/>", "cannot be read: unknown encoding.*iconv -t UTF-8"),
    ],
)
def test_a_file_that_is_not_a_memory_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.tmx").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.tmx.*{message}"):
        list(read_pairs(Tmx(tmx=str(tmp_path / "a.tmx"), languages=("en", "de"))))


def test_a_memory_is_read_unit_by_unit(tmp_path: Path) -> None:
    units = "<tu><tuv xml:lang='en'><seg>a b c</seg></tuv><tuv xml:lang='de'><seg>x y z</seg></tuv></tu>" * 20_000
    corpus = memory(tmp_path / "a.tmx", units)
    tracemalloc.start()
    assert sum(1 for _ in read_pairs(corpus)) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 2**20  # all elements would take sixty times as much
    tracemalloc.stop()


PAIR = "<tu><tuv xml:lang='en'><seg>a b c</seg></tuv><tuv xml:lang='de'><seg>x y z</seg></tuv></tu>"


@pytest.mark.parametrize(
    "before",
    ["<x y='z'/>" * 50_000, f"<tu>{'<prop>x</prop>' * 50_000}</tu>", "z" * 500_000, f"</body>{'<x/>' * 50_000}<body>"],
)
def test_elements_that_are_no_unit_take_no_memory(tmp_path: Path, before: str) -> None:
    corpus = memory(tmp_path / "a.tmx", before + PAIR)
    tracemalloc.start()
    assert [pair for pair in read_pairs(corpus) if all(pair)] == [("a b c", "x y z")]
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("markup", ["<tu x='{}'/>", "<!--{}-->", "<?x {}?>", "<{}/>"])
def test_markup_of_more_than_a_megabyte_is_refused(tmp_path: Path, markup: str) -> None:
    message = r"a\.tmx: line 3 has a tag, a comment or a declaration of more than 1,048,576 bytes; remove it"
    with pytest.raises(ValueError, match=message):
        list(read_pairs(memory(tmp_path / "a.tmx", markup.format("y" * 3_000_000))))
    entities = "".join(f"<!ENTITY e{number} 'y'>" for number in range(100_000))
    (tmp_path / "a.tmx").write_text(f"<!DOCTYPE tmx [{entities}]><tmx></tmx>")
    with pytest.raises(ValueError, match=message.replace("3", "1")):
        list(read_pairs(Tmx(tmx=str(tmp_path / "a.tmx"), languages=("en", "de"))))


def test_what_a_parser_would_keep_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "".join(f"<a{number}/>" for number in range(1_001))
    with pytest.raises(ValueError, match=r"line 3 has the last of more than 1,000 names of elements: this is not TMX"):
        list(read_pairs(memory(tmp_path / "a.tmx", many)))
    monkeypatch.setattr("transduce.text.lines.MAX_LINE_BYTES", 100)
    units = f"{PAIR}\n<tu><tuv xml:lang='en'><seg>{'<hi>a b c</hi>' * 30}</seg></tuv></tu>"
    with pytest.raises(ValueError, match=r"a\.tmx: line 4 is longer than 100 bytes"):
        list(read_pairs(memory(tmp_path / "a.tmx", units)))


@pytest.mark.parametrize("named", [{"tmx": "a.tmx"}, {"hub": "wmt/wmt14", "config": "de-en"}])
def test_a_corpus_of_several_languages_needs_two_codes(named: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"`test`.*set `source_language` and `target_language`.*or `languages"):
        validated(DataSpec, {"train": {"tsv": "a"}, "test": {"one": named}, "source_language": "en"}, place="r")
    own = validated(DataSpec, {"train": {**named, "languages": ["de", "en"]}}, place="r")
    assert own.train[0].languages == ("de", "en")
    both = validated(DataSpec, {"train": named, "source_language": "en", "target_language": "de"}, place="r")
    assert both.train[0].languages == ("en", "de")
    assert validated(DataSpec, both.as_dictionary(), place="again") == both


@pytest.mark.parametrize("languages", [["en"], ["en", "en"], ["en", ""], ["en", 3], "en", ["en", "de", "fr"]])
def test_languages_are_two(languages: object) -> None:
    with pytest.raises(ValueError, match=r"`train.languages`: write two codes.* such as \[en, de\]"):
        validated(DataSpec, {"train": {"tmx": "a", "languages": languages}}, place="r")


class Table(list):
    def iter(self, batch_size):
        for start in range(0, len(self), 2):
            yield {key: [row[key] for row in self[start : start + 2]] for key in self[0]}


@pytest.fixture
def hub(monkeypatch):
    """Replaces the package `datasets` by one with a single table; returns the calls of `load_dataset`."""
    calls = []
    rows = [{"en": "a\nman", "de": " ein\r\n Mann"}, {"en": "two", "de": "zwei"}, {"en": "three", "de": None}]

    def load_dataset(dataset, config, split, revision):
        calls.append((dataset, config, split, revision))
        return Table(rows if config is None else [{"translation": row} for row in rows])

    package = SimpleNamespace(load_dataset=load_dataset, disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", package)
    return calls


@pytest.mark.parametrize("config", [None, "de-en"])
def test_a_table_of_the_hub(hub, config):
    corpus = Hub(hub="wmt/wmt14", config=config, languages=("en", "de"), revision="v1")
    assert list(read_pairs(corpus)) == [("a man", "ein Mann"), ("two", "zwei"), ("three", "")]
    assert hub == [("wmt/wmt14", config, "train", "v1")]
    with pytest.raises(ValueError, match=r"wmt/wmt14 has no fr; it has (en, de|de, en)"):
        list(read_pairs(corpus.model_copy(update={"languages": ("en", "fr")})))


def test_a_table_of_the_hub_is_trained_on(hub, tmp_path):
    data = DataSpec(train=(Hub(hub="wmt/wmt14"),), source_language="en", target_language="de")
    made = prepare(data, Bpe(size=300), tmp_path, threads=1)
    assert (made.report.read, made.report.kept) == (3, 2)
    assert made.report.places[Fault.EMPTY] == ["wmt/wmt14 train:3"]


def test_rows_without_any_translation_are_empty(monkeypatch):
    rows = [{"translation": row} for row in ({"en": "a", "de": "b"}, {"en": "c", "de": "d"}, None, None)]
    package = SimpleNamespace(load_dataset=lambda *_, **__: Table(rows), disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", package)
    assert list(read_pairs(Hub(hub="x/y", languages=("en", "de")))) == [("a", "b"), ("c", "d"), ("", ""), ("", "")]


def test_a_folder_of_the_current_directory_is_refused_as_a_table_of_the_hub(tmp_path, monkeypatch):
    (tmp_path / "opus_books").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is also a folder of the current directory"):
        Hub(hub="opus_books", languages=("en", "de"))


def test_wordpiece_of_another_model_has_no_merges_to_drop(tmp_path):
    subwords = Subwords.learn(["a man", "two men"] * 9, WordPiece(size=600))
    data = DataSpec(train=(Hub(hub="x/y"),), source_language="en", target_language="de")
    with pytest.raises(ValueError, match=r"the subwords of --from are WordPiece, .* set subwords\.dropout: 0"):
        prepare(data, Bpe(dropout=0.1), tmp_path, threads=1, existing_subwords=(subwords, subwords))


def test_columns_that_are_not_text_are_refused(monkeypatch):
    rows = [{"en": "a", "de": "b", "translation": "c"}, {"en": ["a"], "de": 3, "translation": None}]
    package = SimpleNamespace(load_dataset=lambda *_, **__: Table(rows), disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", package)
    with pytest.raises(ValueError, match=r"x/y: row 2 has no text in en, de: \(\['a'\], 3\)"):
        list(read_pairs(Hub(hub="x/y", languages=("en", "de"))))


def test_every_error_of_the_package_becomes_a_message(monkeypatch):
    def load_dataset(*_, **__):
        raise RuntimeError("Dataset scripts are no longer supported")

    package = SimpleNamespace(load_dataset=load_dataset, disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", package)
    with pytest.raises(OSError, match=r"`datasets` cannot load x/y, de-en, train: Dataset scripts are no longer"):
        list(read_pairs(Hub(hub="x/y", config="de-en", languages=("en", "de"))))


def test_a_changed_folder_of_tables_is_noticed(hub, tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "train.jsonl").write_text("{}\n", "utf-8")
    content = "data: {train: {hub: tables}, source_language: en, target_language: de}\n"
    (tmp_path / "recipe.yaml").write_text(content, "utf-8")
    data = load(tmp_path / "recipe.yaml").data
    assert data.train == (Hub(hub=str(folder), languages=("en", "de")),)
    prepare(data, Bpe(size=300), tmp_path / "store", threads=1)
    prepare(data, Bpe(size=300), tmp_path / "store", threads=1, in_use=True)
    (folder / "train.jsonl").write_text("{} \n", "utf-8")
    with pytest.raises(ValueError, match="has changed since"):
        prepare(data, Bpe(size=300), tmp_path / "store", threads=1, in_use=True)


def test_a_corpus_of_the_hub_names_the_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"the corpus \{hub: wmt/wmt14\} needs the package `datasets`: `pip install"):
        list(read_pairs(Hub(hub="wmt/wmt14", languages=("en", "de"))))


@pytest.mark.filterwarnings("default")
def test_the_package_itself_reads_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))  # read when the package is imported
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    pytest.importorskip("datasets", reason="needs the extra hub")
    folder = tmp_path / "table"
    folder.mkdir()
    row = json.dumps({"translation": {"de": "zwei", "en": "two"}})
    (folder / "validation.jsonl").write_text(f"{row}\n", "utf-8")
    assert list(read_pairs(Hub(hub=str(folder), split="validation", languages=("en", "de")))) == [("two", "zwei")]
