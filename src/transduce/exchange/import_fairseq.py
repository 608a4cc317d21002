"""Imports fairseq checkpoints of the `transformer` architectures."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from transduce.exchange import imported_model as foreign
from transduce.exchange.foreign_formats import foreign_format
from transduce.exchange.imported_model import ForeignTensors, ForeignVocabulary, ImportedModel
from transduce.exchange.weight_files import part_of, plain_values, read_checkpoint
from transduce.storage.regular_files import read_regular_file
from transduce.text.token_vocabulary import TokenVocabulary

PREFERRED = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")
CODES = ("bpecodes", "code", "codes", "bpe.codes")
PIECES = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "spm.bpe.model")
SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # the first four tokens of every dictionary
PAD, END, FIRST_POSITION = 1, 2, 2  # decoding begins with EOS; the number of the first position is PAD + 1
BEAM, EXPONENT = 5, 1.0  # fairseq's defaults
NO_WEIGHTS = ("version", "embed_positions._float_tensor")  # entries of the encoder or decoder that are not weights

FORMAT = foreign_format("fairseq")
PAIRS = (("encoder_normalize_before", "decoder_normalize_before"), ("encoder_learned_pos", "decoder_learned_pos"))


def is_fairseq(directory: Path) -> bool:
    """Returns whether a folder contains fairseq checkpoints and dictionaries."""
    return any(directory.glob("*.pt")) and any(directory.glob("dict.*.txt"))


def read_fairseq(directory: Path, languages: tuple[str | None, str | None]) -> ImportedModel:
    """Reads the fairseq model in a folder.

    `languages` are the source and target languages, which determine the dictionaries. A language that is None is taken
    from the settings of the model. Raises ValueError if a setting cannot be represented, or if files are missing or
    damaged.
    """
    names = sorted(path.name for path in directory.glob("*.pt"))
    chosen = next((name for name in PREFERRED if name in names), None)
    if chosen is None and len(names) > 1:
        raise ValueError(f"{directory} has several checkpoints, {', '.join(names)}: leave one, or name it model.pt")
    path = directory / (chosen or names[0])

    def weights_of(value: Any) -> Any:
        if not isinstance(value, dict) or "model" not in value:
            raise ValueError("it holds no `model`, as checkpoints of fairseq do")
        return value["model"]

    value, loaded = read_checkpoint(path, weights_of)
    settings, place = plain_values(value.get("args")), str(path)
    for section in ("task", "model"):  # the sections of `cfg`, which newer versions write instead of `args`
        settings |= plain_values(part_of(value.get("cfg"), section))
    architecture = settings.get("arch", settings.get("_name", "transformer"))
    if not isinstance(architecture, str) or not architecture.startswith("transformer") or "lm" in architecture:
        raise ValueError(f"{place}: `arch` is {architecture!r}; only a `transformer` can be imported")
    further = [name for name in ("decoder_input_dim", "decoder_output_dim") if settings.get(name) is not None]
    sizes = foreign.check_settings(settings, FORMAT, place, {"d_model": further})
    for first, second in PAIRS:
        if bool(settings.get(first)) != bool(settings.get(second)):
            raise ValueError(
                f"{place}: `{first}` is {settings.get(first)!r} and `{second}` is {settings.get(second)!r}, and a "
                "model of transduce has one value for both"
            )
    # The options take precedence over the languages in the settings. Both languages need a dictionary.
    with_dictionary = [path.name.removeprefix("dict.").removesuffix(".txt") for path in directory.glob("dict.*.txt")]
    source_language, target_language = (
        option or settings.get(name) for option, name in zip(languages, ("source_lang", "target_lang"), strict=True)
    )
    for language, option in ((source_language, "--from"), (target_language, "--to")):
        if language not in with_dictionary:
            raise ValueError(
                f"{directory} has dictionaries for {', '.join(sorted(with_dictionary))}, and the language is "
                f"{language!r}: name it with `{option}`"
            )
    dictionaries = [f"dict.{language}.txt" for language in (source_language, target_language)]
    source, target = (_vocabulary(directory / name) for name in dictionaries)
    if settings.get("share_all_embeddings") and source.names != target.names:
        raise ValueError(f"{directory}: `share_all_embeddings` is True, and {' and '.join(dictionaries)} differ")
    tensors = ForeignTensors(loaded, place)
    tensors.drop(f"{side}.{name}" for side in ("encoder", "decoder") for name in NO_WEIGHTS)
    weights, spec = _take_tables(tensors, settings, (source, target))
    activation = settings.get("activation_fn", "relu")
    model, layers = foreign.take_model(tensors, settings, sizes, spec, activation, FORMAT.layers, place)
    if subword_file := _first_file(directory, PIECES):
        pieces = read_regular_file(directory / subword_file)
        sides: tuple[TokenVocabulary, TokenVocabulary]
        sides = source.sentence_pieces(pieces), target.sentence_pieces(pieces)
    elif subword_file := _first_file(directory, CODES):
        merges = _read_merges(directory / subword_file)
        sides = source.moses_bpe(merges, str(source_language)), target.moses_bpe(merges, str(target_language))
    else:
        raise ValueError(
            f"{directory} has no subwords: put the merges there as `{CODES[0]}`, or the SentencePiece model as "
            f"`{PIECES[0]}`"
        )
    return ImportedModel(
        model,
        weights | layers,
        sides[0],
        sides[1],
        foreign.nearest_decoding(BEAM, EXPONENT, place),
        (source_language, target_language),
        "a `transformer` checkpoint of fairseq",
        tuple(dict.fromkeys([path.name, *dictionaries, subword_file])),
    )


def _vocabulary(path: Path) -> ForeignVocabulary:
    """Reads a dictionary file. Each line has a token and its count. The file omits the four symbols that come first."""
    tokens = [line.rstrip().removesuffix(" #fairseq:overwrite").rsplit(" ", 1)[0] for line in _lines(path)]
    ids = {token: row for row, token in enumerate((*SYMBOLS, *tokens))}
    if len(ids) < len(tokens) + len(SYMBOLS):
        raise ValueError(f"{path} has a token twice, or one of the symbols {', '.join(SYMBOLS)}")
    return ForeignVocabulary.of(ids, len(ids), pad=PAD, begin=END, end=END, place=str(path))


def _lines(path: Path) -> list[str]:
    """Returns the non-empty lines of a text file; raises ValueError if the file is not UTF-8."""
    try:
        text = read_regular_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from None
    return [line.removesuffix("\r") for line in text.split("\n") if line.strip()]


def _take_tables(
    tensors: ForeignTensors, settings: Mapping[str, Any], sides: tuple[ForeignVocabulary, ForeignVocabulary]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Takes the embeddings, the readout and the position tables from the tensors.

    Returns the weights, and the model settings that follow from them.
    """
    d_model = settings["encoder_embed_dim"]
    shared = bool(settings.get("share_all_embeddings"))
    tied = shared or bool(settings.get("share_decoder_input_output_embed"))
    names = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    output = [name for name in ("decoder.output_projection.weight", "decoder.embed_out") if name in tensors]
    embeddings, readout = [names] if shared else [names[:1], names[1:]], None
    if tied:
        embeddings[-1] += output
    else:
        readout = tensors.take_equal(output or ["decoder.output_projection.weight"], sides[1].size, d_model)
    weights, spec = foreign.take_tables(tensors, sides, d_model, embeddings, readout, None)
    positions: dict[str, Any] = {"kind": "sinusoidal", "layout": "halves", "first": FIRST_POSITION}
    if settings.get("encoder_learned_pos"):  # drop the rows up to that of PAD, and rows that only one side has
        tables = {"source": "encoder.embed_positions.weight", "target": "decoder.embed_positions.weight"}
        rows = {side: tensors.shape(name)[0] for side, name in tables.items()}
        for side, name in tables.items():
            table = tensors.take(name, rows[side], d_model)[FIRST_POSITION : min(rows.values())].clone()
            weights[f"{side}_embedding.positions.weight"] = table
        positions = {"kind": "learned", "max_positions": len(table)}
    norm = "pre" if settings.get("encoder_normalize_before") else "post"
    return weights, {**spec, "positions": positions, "norm": norm}


def _read_merges(path: Path) -> tuple[tuple[str, str], ...]:
    """Reads a file of BPE merges in the format of subword-nmt 0.2, or of fastBPE, which adds a count to each line.

    Raises ValueError for any other format.
    """
    lines = _lines(path)
    if lines and lines[0].startswith("#version:"):
        version, *lines = lines
        if version.removeprefix("#version:").strip() != "0.2":
            raise ValueError(f"{path} has `{version}`; only merges of version 0.2 can be imported")
    parts = [line.split(" ") for line in lines]
    if wrong := [line for line, part in zip(lines, parts, strict=True) if len(part) not in (2, 3)]:
        raise ValueError(f"{path}: {wrong[0]!a} is not a merge of two symbols")
    merges = tuple((part[0], part[1]) for part in parts)
    if any("</w>" in merge for merge in merges):
        raise ValueError(f"{path} has merges of version 0.1 of subword-nmt; only version 0.2 can be imported")
    return merges


def _first_file(directory: Path, names: Iterable[str]) -> str | None:
    """Returns the first of `names` that is a file in the folder, or None if there is none."""
    return next((name for name in names if (directory / name).is_file()), None)
