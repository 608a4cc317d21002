"""SentencePiece as the subwords of a recipe, learned here or brought along, beside the library's own pieces."""

import json
from io import BytesIO
from pathlib import Path

import pytest

from transduce import Translator
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.store.preparation import prepare
from transduce.recipe.recipe import load
from transduce.run.train import run_training
from transduce.text.sentence_pieces import SentencePieces
from transduce.text.subword_training import SentencePiece
from transduce.text.token_vocabulary import load_subwords

sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra sentencepiece")

DATA = {"train": {"embedded": "train"}, "source_language": "en", "target_language": "de"}
LINES = ["The old dog sleeps.", "  the\tDOG  ", "日本語 🙂", "naïve café", "ﬁne\u00a0print", "", "⟨s⟩ </s> <unk>"]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A model that the library has learned by itself, with control symbols."""
    folder, model = tmp_path_factory.mktemp("foreign"), BytesIO()
    text = [f"the old dog number {n} sleeps" for n in range(300)] + ["der alte Hund schläft"] * 50
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=340, model_type="bpe", byte_fallback=True,
        pad_id=3, minloglevel=2, user_defined_symbols=["<name>"],
    )  # fmt: skip
    path = folder / "mine.model"
    path.write_bytes(model.getvalue())
    return path


def pieces(side, lines):
    return [[side.vocabulary[token] for token in tokens] for tokens in side.encode(lines)]


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
@pytest.mark.parametrize("shared", [True, False])
def test_pieces_are_the_librarys(tmp_path, algorithm, shared):
    spec = SentencePiece(size=700, algorithm=algorithm, shared=shared, symbols=("<name>",))
    made = prepare(DataSpec.model_validate(DATA), spec, tmp_path, threads=1)
    assert made.source.size <= 700
    assert (made.source is made.target) == shared
    for side in load_subwords(tmp_path, shared=shared):
        library = sentencepiece.SentencePieceProcessor(model_proto=side.model_file)
        assert pieces(side, LINES) == library.encode(LINES, out_type=str)
        assert side.decode(side.encode(LINES)) == [library.decode(line) for line in library.encode(LINES)]
        assert pieces(side, ["a <name> b"])[0].count("<name>") == 1
    again = prepare(DataSpec.model_validate(DATA), spec, tmp_path / "again", threads=2)
    assert again.source.as_json() == made.source.as_json()


def test_targets_of_their_own_vocabulary_keep_their_characters(tmp_path):
    sources = ["one\u202ftwo"] * 20
    for keeps, text in ((True, "one\u202ftwo"), (False, "one two")):
        side = SentencePieces.learn(sources, SentencePiece(size=280), keeps_characters=keeps)
        assert side.decode(side.encode(["one\u202ftwo"])) == [text]


def test_a_model_that_people_have_is_taken_as_it_is(tmp_path, foreign):
    data, spec = DataSpec.model_validate(DATA), SentencePiece(model=str(foreign))
    made = prepare(data, spec, tmp_path / "store", threads=1)
    library = sentencepiece.SentencePieceProcessor(model_file=str(foreign))
    assert pieces(made.source, LINES) == library.encode(LINES, out_type=str)
    assert made.source.size == library.get_piece_size() + 3
    assert made.source.model_file == foreign.read_bytes()
    copy = tmp_path / "copy.spm"
    copy.write_bytes(foreign.read_bytes())
    sides = SentencePiece(model=(str(copy), str(foreign)), shared=False)
    two = prepare(data, sides, tmp_path / "two", threads=1)
    assert two.source is not two.target
    elsewhere = prepare(data, SentencePiece(model=str(copy)), tmp_path / "copied", threads=1)
    assert elsewhere.fingerprint == made.fingerprint


def test_two_files_are_two_vocabularies():
    values = {"kind": "sentencepiece", "model": ["a.model", "b.model"], "shared": False}
    assert SentencePiece.model_validate(values).model_files == (Path("a.model"), Path("b.model"))
    with pytest.raises(ValueError, match="`model` names two vocabularies: set `shared: false`"):
        SentencePiece.model_validate(values | {"shared": True})


def test_faults_are_named(tmp_path):
    data = DataSpec.model_validate(DATA)
    (tmp_path / "none.model").write_text("no model")
    with pytest.raises(ValueError, match=r"none\.model: this is not a SentencePiece model"):
        prepare(data, SentencePiece(model=str(tmp_path / "none.model")), tmp_path / "store", threads=1)
    with pytest.raises(FileNotFoundError, match=r"missing\.model"):
        prepare(data, SentencePiece(model=str(tmp_path / "missing.model")), tmp_path / "store", threads=1)
    for changed in ({"train": {"embedded_trees": "test"}}, {"train": {"embedded": "test", "tag": "x"}}):
        with pytest.raises(ValueError, match=r"`subwords\.kind: sentencepiece` is not for"):
            prepare(DataSpec.model_validate(DATA | changed), SentencePiece(), tmp_path / "store", threads=1)


def test_a_run_trains_resumes_and_translates(micro, tmp_path, foreign):
    spec = {"kind": "sentencepiece", "size": 320, "algorithm": "bpe"}
    changes = ["training.steps=3", "training.save_every=1", f"subwords={json.dumps(spec)}"]
    run_training(load(micro / "recipe.yaml", changes), tmp_path / "run")
    run_training(load(micro / "recipe.yaml", [*changes, "training.steps=5"]), tmp_path / "run")
    translator = Translator.load(tmp_path / "run")
    assert isinstance(translator.source, SentencePieces)
    assert len(translator.translate(["owl", "ant  bee"])) == 2
    assert translator.score(["owl"], ["lwo"])[0] < 0
