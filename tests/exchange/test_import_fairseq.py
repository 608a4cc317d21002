"""Checkpoints of fairseq's shape, imported, against transformers' FSMT and torch's layers; subwords and refusals."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq_models import (
    SETTINGS,
    Merges,
    TorchTransformer,
    apply_merges,
    dictionary,
    moses,
    save_checkpoint,
    write_text_files,
)
from foreign_models import ENGLISH, GERMAN, ODD, add_noise, train_sentence_piece
from sacremoses import MosesDetokenizer
from torch import Tensor
from transformers import FSMTConfig, FSMTForConditionalGeneration

from transduce.exchange.import_model import import_model
from transduce.model_directory.model import Model
from transduce.translation.alignment import words_of_subwords
from transduce.translation.translator import Translator

SENTENCES = [ENGLISH[5], "the cat", "a bee likes the owl, 你", f"{ENGLISH[70]} {ENGLISH[3]}"]
TARGETS = [GERMAN[9], "der", f"{GERMAN[100]} {GERMAN[2]}", "Kauz mag Käfer ½"]


def import_quietly(folder: Path, out: Path, **languages: str) -> Model:
    import_model(folder, out, **languages)
    return Model.read(out)


def rectangle(rows: list[list[int]], pad: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows])


def their_ids(folder: Path, merges: Merges, lines: list[str], language: str) -> list[list[int]]:
    """Returns the ids of lines as fairseq makes them, the end symbol last."""
    ids = {token: number for number, token in enumerate(dictionary(folder / f"dict.{language}.txt"))}
    subwords = [apply_merges(line, merges) for line in moses(lines, language)]
    return [[*(ids.get(subword, 3) for subword in line), 2] for line in subwords]


def assert_equal_distributions(model: Model, folder: Path, theirs: Tensor) -> None:
    """Asserts equal log-probabilities of every token of the dictionary after every token of the targets."""
    tokens = dictionary(folder / "dict.de.txt")
    symbols = {"<pad>": 0, "</s>": 2}
    columns = [symbols[token] if token in symbols else model.target.vocabulary.index(token, 3) for token in tokens]
    source = rectangle([[*row, 2] for row in model.source.encode(SENTENCES)], 0)
    targets = model.target.encode(TARGETS)
    target_in = rectangle([[1, *row] for row in targets], 0)
    with torch.no_grad():
        ours = model.module.readout(model.module(source, source != 0, target_in).states)
    assert theirs.std() > 1
    for number, row in enumerate(targets):
        torch.testing.assert_close(
            ours[number, : len(row) + 1, columns], theirs[number, : len(row) + 1], rtol=0, atol=5e-5
        )
    assert (ours[:, :, 1].exp() < 1e-30).all()


@pytest.mark.parametrize("shared", [False, True])
def test_log_probabilities_are_those_of_transformers(tmp_path: Path, shared: bool) -> None:
    merges = write_text_files(tmp_path / "fairseq", shared=shared)
    sizes = [len(dictionary(tmp_path / "fairseq" / f"dict.{language}.txt")) for language in ("en", "de")]
    assert shared == (sizes[0] == sizes[1])
    config = FSMTConfig(
        langs=["en", "de"], src_vocab_size=sizes[0], tgt_vocab_size=sizes[1], d_model=24, encoder_layers=2,
        decoder_layers=3, encoder_ffn_dim=40, decoder_ffn_dim=40, encoder_attention_heads=3, decoder_attention_heads=3,
        max_position_embeddings=90, tie_word_embeddings=shared, use_cache=False, activation_function="relu",
    )  # fmt: skip
    torch.manual_seed(2)
    foreign = FSMTForConditionalGeneration(config).eval()
    add_noise(foreign, but="embed_positions")
    tensors = {
        name.removeprefix("model."): tensor.clone()
        for name, tensor in foreign.state_dict().items()
        if "embed_positions" not in name
    }
    tied = {"share_all_embeddings": shared, "share_decoder_input_output_embed": shared}
    save_checkpoint(tmp_path / "fairseq" / "model.pt", tensors, {**SETTINGS, **tied})
    model = import_quietly(tmp_path / "fairseq", tmp_path / "run")
    spec = model.config.model
    assert (spec.dropout, spec.mixer.dropout, spec.feed_forward.dropout) == (0.1, 0.2, 0.3)
    assert (model.config.source_language, model.config.target_language) == ("en", "de")
    source = rectangle(their_ids(tmp_path / "fairseq", merges, SENTENCES, "en"), 1)
    target_in = rectangle([[2, *row[:-1]] for row in their_ids(tmp_path / "fairseq", merges, TARGETS, "de")], 1)
    with torch.no_grad():
        theirs = foreign(input_ids=source, attention_mask=(source != 1).long(), decoder_input_ids=target_in).logits
    assert_equal_distributions(model, tmp_path / "fairseq", theirs.log_softmax(-1))


@pytest.mark.parametrize(
    ("pre", "in_one", "tied", "activation", "cfg"),
    [(True, False, False, "gelu", True), (False, True, True, "relu", False), (True, True, False, "relu", False)],
)
def test_log_probabilities_are_those_of_torchs_layers(
    tmp_path: Path, pre: bool, in_one: bool, tied: bool, activation: str, cfg: bool
) -> None:
    """Pre-norm, learned positions, two or three separate matrices, and the names of the first versions."""
    folder = tmp_path / "fairseq"
    merges = write_text_files(folder, shared=False)
    changes = {
        "encoder_normalize_before": pre,
        "decoder_normalize_before": pre,
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "activation_fn": activation,
        "share_decoder_input_output_embed": tied,
    }
    settings = {**SETTINGS, **changes}
    torch.manual_seed(2)
    sizes = [len(dictionary(folder / f"dict.{language}.txt")) for language in ("en", "de")]
    foreign = TorchTransformer(settings, *sizes).eval()
    if tied:
        foreign.output.weight = foreign.target.weight
    add_noise(foreign)
    tensors = foreign.fairseq_tensors(in_one=in_one)
    if cfg:  # as later versions
        content = {"args": None, "cfg": {"model": settings, "task": {"source_lang": "en"}}, "model": tensors}
        torch.save(content, folder / "checkpoint_best.pt")
    else:
        save_checkpoint(folder / "checkpoint_best.pt", tensors, settings)
    model = import_quietly(folder, tmp_path / "run")
    assert model.module.max_positions == 78
    source = rectangle(their_ids(folder, merges, SENTENCES, "en"), 1)
    target_in = rectangle([[2, *row[:-1]] for row in their_ids(folder, merges, TARGETS, "de")], 1)
    with torch.no_grad():
        assert_equal_distributions(model, folder, foreign(source, target_in))


class ModuleStandIn:
    """Stands in for a class of a library that is not installed while a file is written."""

    def __init__(self, **state: Any) -> None:
        self.__dict__.update(state)


def stand_in(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> type[ModuleStandIn]:
    """Returns a class that is pickled as `name` of `module`."""
    kind = type(name, (ModuleStandIn,), {"__module__": module})
    for imported in (module.partition(".")[0], module):
        monkeypatch.setitem(sys.modules, imported, types.ModuleType(imported))
    setattr(sys.modules[module], name, kind)
    return kind


def test_settings_may_be_records_of_omegaconf_and_fairseq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of both libraries are read as the names and values that they hold, without the libraries."""
    any_node = stand_in("omegaconf.nodes", "AnyNode", monkeypatch)
    configuration = stand_in("omegaconf.dictconfig", "DictConfig", monkeypatch)
    meter = stand_in("fairseq.meters", "AverageMeter", monkeypatch)
    folder = tmp_path / "fairseq"
    write_text_files(folder, shared=False)
    sizes = [len(dictionary(folder / f"dict.{language}.txt")) for language in ("en", "de")]
    settings = {**SETTINGS, "encoder_learned_pos": True, "decoder_learned_pos": True}
    del settings["source_lang"]
    root = configuration(_metadata={"ref_type": Any})
    model = configuration(_parent=root, _content={name: any_node(_val=value) for name, value in settings.items()})
    root._content = {"model": model, "task": configuration(_parent=root, _content={"source_lang": any_node(_val="en")})}
    weights = TorchTransformer(settings, *sizes).fairseq_tensors(in_one=False)
    torch.save({"cfg": root, "model": weights, "extra_state": {"meter": meter(sum=3.0)}}, folder / "model.pt")
    monkeypatch.undo()
    read = import_quietly(folder, tmp_path / "run")
    assert (read.config.source_language, read.config.model.feed_forward.dropout) == ("en", 0.3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Merges]:
    """Returns the run of a checkpoint, whose folder is beside it, and its merges."""
    folder = tmp_path_factory.mktemp("imported")
    merges = write_text_files(folder / "fairseq", shared=True)
    size = len(dictionary(folder / "fairseq" / "dict.de.txt"))
    settings = {**SETTINGS, "encoder_learned_pos": True, "decoder_learned_pos": True}
    torch.manual_seed(2)
    foreign = TorchTransformer(settings, size, size)
    add_noise(foreign)
    save_checkpoint(folder / "fairseq" / "checkpoint_best.pt", foreign.fairseq_tensors(in_one=False), settings)
    import_quietly(folder / "fairseq", folder / "run")
    return folder / "run", merges


@pytest.mark.parametrize("line", [*ODD, "the well-known cat-dog's", "&amp; @-@ a@@ b"])
def test_text_is_split_as_subword_nmt_splits_it(run: tuple[Path, Merges], line: str) -> None:
    model = Model.read(run[0])
    for side, language in ((model.source, "en"), (model.target, "de")):
        (tokens,) = side.encode([line])
        ids = {token: number for number, token in enumerate(side.vocabulary)}
        expected = apply_merges(*moses([line], language), run[1])
        assert tokens == [ids.get(subword, ids["<unk>"]) for subword in expected]
        joined = (" ".join(side.vocabulary[token] for token in tokens) + " ").replace("@@ ", "")
        assert side.decode([tokens]) == [MosesDetokenizer(language).detokenize(joined.split())]


def test_decoding_undoes_encoding(run: tuple[Path, Merges]) -> None:
    model = Model.read(run[0])
    for side, lines in ((model.source, ENGLISH), (model.target, GERMAN)):
        assert side.decode(side.encode(lines)) == lines
    tokens = model.source.encode(["the newt 你"])[0]
    shown = model.source.readable_subwords([*tokens, 2])
    assert shown[0] == "▁the"
    assert shown[-2:] == ["▁<unk>", "</s>"]
    assert [piece for piece in shown if piece.startswith("▁n")]
    with pytest.raises(ValueError, match="half a surrogate pair"):
        model.source.encode(["a", "b \ud800"])


def test_the_words_of_subwords_are_those_between_spaces(run: tuple[Path, Merges]) -> None:
    """Moses makes two tokens of "newt," and three of "well-known"."""
    source = Model.read(run[0]).source
    for line in (*ENGLISH, "the newt, the newt.", "a well-known cat's & newt"):
        (tokens,) = source.encode([line])
        places = words_of_subwords(source.readable_subwords(tokens))
        assert max(places.values()) + 1 == len(source.decode([tokens])[0].split()), line


def test_the_run_translates_and_draws(run: tuple[Path, Merges]) -> None:
    translator = Translator.load(run[0])
    best = translator.translate_records("the cat sees", beam=5, length_penalty=0.0, n_best=2)
    assert 0 > best[0].log_probability >= best[1].log_probability
    assert best[0].log_probability >= translator.translate_records("the cat sees", greedy=True).log_probability
    assert translator.explain("the cat", "der Kater").target[-1] == "</s>"


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("arch", "transformer_lm_big", "`arch` is 'transformer_lm_big'"),
        ("arch", "fconv", "`arch` is 'fconv'"),
        ("no_scale_embedding", True, "`no_scale_embedding` is True"),
        ("layernorm_embedding", True, "`layernorm_embedding` is True"),
        ("adaptive_softmax_cutoff", [5, 10], "`adaptive_softmax_cutoff` is"),
        ("activation_fn", "tanh", "`activation_fn` is 'tanh'"),
        (
            "decoder_normalize_before",
            True,
            "`encoder_normalize_before` is False and `decoder_normalize_before` is True",
        ),
        ("decoder_learned_pos", False, "`decoder_learned_pos` is False"),
        ("decoder_attention_heads", 4, "`decoder_attention_heads` is 4"),
        ("decoder_output_dim", 12, "`decoder_output_dim` is 12"),
        ("encoder_layers", "2", "`encoder_layers` is '2'"),
        ("encoder_layers", 1, "weights that no part of a model"),
        ("share_decoder_input_output_embed", True, "differ, and the settings tie them"),
        ("source_lang", "fr", "dictionaries for de, en, and the language is 'fr'"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_name(
    run: tuple[Path, Merges], tmp_path: Path, name: str, value: Any, fault: str
) -> None:
    folder, origin = tmp_path / "fairseq", run[0].parent / "fairseq"
    folder.mkdir()
    for path in origin.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    settings = {**SETTINGS, "encoder_learned_pos": True, "decoder_learned_pos": True, name: value}
    size = len(dictionary(folder / "dict.de.txt"))
    foreign = TorchTransformer(SETTINGS, size, size)
    save_checkpoint(folder / "checkpoint_best.pt", foreign.fairseq_tensors(in_one=False), settings)
    with pytest.raises(ValueError, match=fault):
        import_quietly(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pieces_of_sentence_piece_may_be_the_subwords(run: tuple[Path, Merges], tmp_path: Path) -> None:
    folder, origin = tmp_path / "fairseq", run[0].parent / "fairseq"
    folder.mkdir()
    for path in origin.iterdir():
        if path.name != "bpecodes":
            (folder / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match="has no subwords: put the merges there as `bpecodes`"):
        import_quietly(folder, tmp_path / "run")
    (folder / "sentencepiece.bpe.model").write_bytes(train_sentence_piece([*ENGLISH, *GERMAN], 60, "bpe"))
    model = import_quietly(folder, tmp_path / "run", source_language="de", target_language="en")
    assert model.config.source_language == "de"
    assert model.source.decode(model.source.encode(["der"])) != [""]
    (folder / "other.pt").write_bytes(b"")
    (folder / "checkpoint_best.pt").rename(folder / "mine.pt")
    with pytest.raises(ValueError, match=r"has several checkpoints, mine\.pt, other\.pt"):
        import_quietly(folder, tmp_path / "other")


def test_merges_of_another_version_are_refused(run: tuple[Path, Merges], tmp_path: Path) -> None:
    folder, origin = tmp_path / "fairseq", run[0].parent / "fairseq"
    folder.mkdir()
    for path in origin.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    for codes, fault in (("#version: 0.1\na b\n", "0.1"), ("a b\nc </w>\n", "0.1"), ("a b c d\n", "not a merge")):
        (folder / "bpecodes").write_text(codes)
        with pytest.raises(ValueError, match=fault):
            import_quietly(folder, tmp_path / "run")
    (folder / "bpecodes").write_text("#version: 0.2\nt h\n")
    assert import_quietly(folder, tmp_path / "run").source.encode(["x"]) != [[]]
