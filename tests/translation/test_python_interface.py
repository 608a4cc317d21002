"""The Python interface: `transduce.__all__`, `Translator.translate` and `stream`, `Recipe.load` and `train`."""

import inspect
import io
import json
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transduce
from transduce import Decoding, Recipe, Translation, Translator, train
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.training.loop import StepRecord
from transduce.translation.search_method import SearchMethod, SearchOptions, search_method

LINES = ["cat dog", "the owl saw a mole", "", "gnu hen ibis jay kite"]


@pytest.fixture(scope="module")
def translator(fluent: Path) -> Translator:
    return Translator.load(fluent)


@pytest.fixture(scope="module")
def translations(translator: Translator) -> list[Translation]:
    """The translation of each of LINES alone."""
    return [translator.translate_records(line) for line in LINES]


def python(code: str) -> str:
    """Returns what `code` prints in a new interpreter."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=50).stdout


def test_importing_transduce_imports_no_torch() -> None:
    assert python("import sys, transduce; dir(transduce); print('torch' in sys.modules)") == "False\n"


def test_a_star_import_gives_every_name() -> None:
    names = python("from transduce import *; print(*sorted(name for name in dir() if name[0] != '_'))").split()
    assert names == ["Decoding", "Recipe", "Translation", "Translator", "train"]


def test_all_is_sorted_and_every_name_resolves() -> None:
    assert transduce.__all__ == sorted(transduce.__all__)
    for name in transduce.__all__:
        assert getattr(transduce, name).__name__ == name
        assert name in dir(transduce)
    with pytest.raises(AttributeError, match="module 'transduce' has no attribute 'translate'"):
        transduce.translate  # noqa: B018


def test_translate_gives_text_and_records_have_the_same(
    translator: Translator, translations: list[Translation]
) -> None:
    texts = [translation.text for translation in translations]
    assert translator.translate(LINES) == texts
    assert translator.translate("cat dog") == texts[0]
    assert translator.translate("cat dog", prefix="gip", beam=3).startswith("gip")
    assert json.dumps(translator.translate(LINES)) == json.dumps(texts)
    with pytest.raises(TypeError, match="`translate` returns one text for each: `translate_records` has `n_best`"):
        translator.translate("cat dog", n_best=2)  # type: ignore[call-overload]


def test_a_str_gives_one_translation(translator: Translator, translations: list[Translation]) -> None:
    """A str was once an iterable of letters, each translated by itself."""
    translation = translator.translate_records("cat dog")
    assert isinstance(translation, Translation)
    assert translation.text.strip()
    assert str(translation) == translation.text
    assert translation == translations[0]
    assert translator.translate_records("") == Translation("", 0.0, 0.0, [])


ITERABLES: dict[str, Callable[[], Iterable[str]]] = {
    "list": lambda: list(LINES),
    "tuple": lambda: tuple(LINES),
    "generator": lambda: (line for line in LINES),
    "file": lambda: io.StringIO("".join(f"{line}\n" for line in LINES)),
    "file from Windows": lambda: io.StringIO("".join(f"{line}\r\n" for line in LINES), newline=""),
}


@pytest.mark.parametrize("kind", ITERABLES)
def test_any_iterable_gives_a_list(translator: Translator, translations: list[Translation], kind: str) -> None:
    """A generator once gave empty translations: it was used up before its lines were encoded."""
    result = translator.translate_records(ITERABLES[kind]())
    assert isinstance(result, list)
    assert [translation.text for translation in result] == [translation.text for translation in translations]
    assert result[0].text


def test_an_open_file_gives_a_list(translator: Translator, translations: list[Translation], tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("\n".join(LINES), "utf-8")
    with (tmp_path / "input.txt").open(encoding="utf-8") as file:
        result = translator.translate_records(file)
    assert [translation.text for translation in result] == [translation.text for translation in translations]
    assert translator.translate_records([]) == []


def test_n_best_gives_lists_best_first(translator: Translator, translations: list[Translation]) -> None:
    best = translator.translate_records("cat dog", n_best=2)
    assert [type(translation) for translation in best] == [Translation, Translation]
    assert best[0].text == translations[0].text
    assert best[0].score >= best[1].score
    assert best[0].tokens != best[1].tokens
    assert len(translator.translate_records("cat dog", n_best=1)) == 1
    lists = translator.translate_records(iter(LINES), n_best=2)
    assert [len(best) for best in lists] == [2, 2, 1, 2]
    assert [best[0].text for best in lists] == [translation.text for translation in translations]


def test_keyword_arguments_are_options_of_the_command() -> None:
    from transduce.commands.options import spread
    from transduce.commands.translate import translate

    options = set(inspect.signature(spread(translate)).parameters)
    assert set(SearchOptions.__annotations__) - {"margin"} <= options  # which is a setting of the model
    assert {"n_best", "prefix"} <= options


def test_keyword_arguments_choose_the_search(translator: Translator) -> None:
    greedy = translator.translate_records(LINES, greedy=True)
    assert all(translation.score == translation.log_probability for translation in greedy)
    beam = translator.translate_records("cat dog", beam=5, length_penalty=0.0, margin=4.0, n_best=5)
    assert all(translation.score == pytest.approx(translation.log_probability) for translation in beam)
    options = {"temperature": 2.0, "top_k": 40, "top_p": 0.95}
    drawn = [translator.translate_records(LINES, seed=seed, **options) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert translator.translate_records(LINES, top_k=1) == greedy


@pytest.mark.parametrize(
    ("error", "options", "message"),
    [
        (TypeError, {"beams": 4}, "there is no option `beams`; did you mean `beam`?"),
        (TypeError, {"alignments": True}, "there is no option `alignments`; `explain` returns attention weights"),
        (TypeError, {"num_beams": 4}, "there is no option `num_beams`; it is `beam` here"),
        (TypeError, {"precision": "int8"}, "it is an argument of `Translator.load`"),
        (ValueError, {"beam": 0}, "beam"),
        (ValueError, {"n_best": 0}, "`n_best` is 0: give a whole number from 1"),
        (ValueError, {"n_best": 3}, "a beam of 2 gives at most 2: add `beam=3`"),
        (ValueError, {"n_best": 2, "greedy": True}, "greedy search and sampling give one translation"),
        (ValueError, {"greedy": True, "top_p": 0.9}, "`greedy` and `top_p` exclude each other"),
        (ValueError, {"greedy": True, "beam": 2}, "`beam` is an option of a beam search"),
        (ValueError, {"seed": 3}, "`seed` is an option of sampling: add `temperature`"),
        (ValueError, {"temperature": 1.0, "seed": -1}, "`seed` is -1"),
        (ValueError, {"batch_tokens": 0}, "`batch_tokens` is 0"),
        (ValueError, {"prefix": ["a", "b"]}, "there are 2 prefixes for 1 texts: give one prefix a text, or none"),
        (ValueError, {"prefix": []}, "there are 0 prefixes for 1 texts"),
        (TypeError, {"prefix": "gip"}, "`prefix` is a str: give a list, or another iterable, of str"),
    ],
    ids=str,
)
def test_invalid_options_are_refused(
    translator: Translator, error: type[Exception], options: dict[str, Any], message: str
) -> None:
    """Surplus prefixes were once ignored, and too few raised IndexError."""
    with pytest.raises(error) as raised:
        translator.translate_records(["cat dog"], **options)
    assert message in str(raised.value)


def test_prefixes_begin_translations(translator: Translator) -> None:
    assert translator.translate_records("cat dog", prefix="gip").text.startswith("gip")
    prefixed = translator.translate_records(["cat dog", "owl"], prefix=(text for text in ("gip ", "")))
    texts = [translation.text for translation in prefixed]
    assert texts[0].startswith("gip")
    assert texts[1] == translator.translate_records("owl").text
    with pytest.raises(TypeError, match="`prefix` of one text is one str, not a list"):
        translator.translate_records("cat dog", prefix=["gip"])


def test_a_directory_is_loaded_and_not_given_to_the_constructor() -> None:
    with pytest.raises(TypeError, match=r"a model is loaded by `Translator.load\('runs/demo'\)`"):
        Translator("runs/demo")  # type: ignore[arg-type, call-arg]


def test_a_name_on_the_hub_is_answered_with_the_commands_that_download_it() -> None:
    with pytest.raises(ValueError, match="no model directory owner/model; `hf download owner/model --local-dir X` and"):
        Translator.load("owner/model")


def test_the_device_and_the_precision_can_be_read(translator: Translator) -> None:
    assert (str(translator.device), translator.precision) == ("cpu", "float32")


def test_a_name_of_a_file_and_a_text_of_several_lines_get_a_note(
    translator: Translator, tmp_path: Path, log_lines: list[str]
) -> None:
    path = tmp_path / "input.txt"
    translator.translate(str(path))
    assert log_lines == []
    path.write_text("cat\n")
    translator.translate(str(path))
    assert [f"{path} is also a file, which was not read" in line for line in log_lines] == [True]
    translator.translate("cat\ndog\n")
    assert "give a list with one sentence each" in log_lines[-1]
    for text in ("cat\n", "猫" * 300, "\0", "\ud800", ""):
        translator.translate(text)
    assert len(log_lines) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"cat dog", "`text` is a bytes: give text, `text.decode()`"),
        (None, "`text` is None"),
        (7, "`text` is an int: give a"),
        ([["cat dog"]], "`text` 1 is a list, not a str: give one flat list"),
        ([b"cat dog"], "`text` 1 is a bytes, not a str: open the file as text"),
        (["cat dog", 7], "`text` 2 is an int, not a str"),
        (["cat dog", None], "`text` 2 is None, a missing value: put '' in its place, or leave it out"),
        (["cat dog", float("nan")], "`text` 2 is nan, a missing value"),
        ({"en": "cat dog"}, "`text` is a dict: give one of its columns or values, such as text['en']"),
        (Path("input.txt"), "`text` is the path of a file: give the open file, `open(path, encoding='utf-8')`"),
    ],
)
def test_values_that_are_no_text_are_refused(translator: Translator, text: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        translator.translate_records(text)
    assert message in str(raised.value)
    with pytest.raises(TypeError) as raised:
        list(translator.stream(text))
    assert message in str(raised.value)


def test_a_text_of_several_sentences_is_noted(translator: Translator, log_lines: list[str]) -> None:
    translator.translate(["cat dog", "Owls saw the cat. Dogs ate."])
    (note,) = log_lines
    assert note == (
        "note: 1 text seems to hold several sentences (the first: text 2); each text is translated as one sentence; "
        "give a list with one sentence each"
    )


def random_translator(translator: Translator, **changes: Any) -> Translator:
    """A translator with the same subwords and a freshly built model, in training mode as torch builds it."""
    size = translator.target.size
    cross, feed_forward = {"heads": 2, "d_k": 4, "d_v": 4}, {"kind": "feed_forward", "d_ff": 24}
    layers = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    spec = Transformer(
        **layers, mixer={"kind": "attention", **cross}, cross=cross, feed_forward=feed_forward, **changes
    )
    torch.manual_seed(1)
    model = spec.build(Vocabulary(source=size, target=size))
    decoding = Decoding(beam=3, length_penalty=0.6, extra_length=4)
    return Translator.of_models([model], translator.source, translator.target, decoding)


def test_a_model_in_training_mode_is_refused(translator: Translator) -> None:
    """Dropout once changed the translations of a model that nobody had put into evaluation mode."""
    fresh = random_translator(translator, dropout=0.5)
    for call in (
        lambda: fresh.translate_records("cat dog"),
        lambda: list(fresh.stream(["cat dog"])),
        lambda: fresh.score(["cat dog"], ["gip"]),
    ):
        with pytest.raises(ValueError, match=r"in training mode.*call its eval\(\) first"):
            call()
    fresh.models[0].eval()
    assert fresh.translate_records("cat dog") == fresh.translate_records("cat dog")


def test_unknown_precisions_and_devices_are_refused(fluent: Path) -> None:
    with pytest.raises(ValueError, match="precision 'int4' is unknown: choose float32, bfloat16, int8"):
        Translator.load(fluent, precision="int4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no model to load"):
        Translator.load()
    with pytest.raises(TypeError, match="a model directory is a str or a path, not a list; several are arguments of"):
        Translator.load([fluent])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="int8 is for a CPU, not for cuda"):
        Translator.load(fluent, device="cuda", precision="int8")


def test_reprs_are_one_readable_line(translator: Translator, translations: list[Translation], fluent: Path) -> None:
    sizes = f"{translator.source.size:,} source and {translator.target.size:,} target subwords"
    assert repr(translator).startswith(f"Translator(1 model, {sizes}, float32 on cpu, Decoding(beam=2")
    assert repr(Translator.load(fluent, fluent)).startswith("Translator(2 models, ")
    best = translations[0]
    figures = f"log_probability={best.log_probability:.3f}, score={best.score:.3f}"
    assert repr(best) == f"Translation({best.text!r}, {figures})"
    assert repr(translator.explain("cat dog", "gip")) == (
        "Explanation('cat dog' → 'gip', 2 encoder and 1 decoder layers)"
    )


def test_a_stream_translates_in_order(translator: Translator, translations: list[Translation]) -> None:
    for lookahead in (1, 3, 100):
        texts = list(translator.stream(iter(LINES), lookahead=lookahead))
        assert texts == [translation.text for translation in translations]
    drawn = [list(translator.stream(LINES, lookahead=lookahead, temperature=1.0, seed=5)) for lookahead in (1, 100)]
    assert drawn[0] == drawn[1]
    prefixed = list(translator.stream(LINES, prefix=iter(["gip", "", "", ""]), lookahead=2))
    assert prefixed[0].startswith("gip")
    assert prefixed[1] == translations[1].text


def test_a_stream_answers_before_it_reads_on(translator: Translator, translations: list[Translation]) -> None:
    read = []

    def lines() -> Iterable[str]:
        for line in LINES:
            read.append(line)
            yield line

    stream = translator.stream(lines(), lookahead=1)
    assert read == []
    assert next(stream) == translations[0].text
    assert read == LINES[:1]
    ahead = translator.stream(lines(), lookahead=2)
    next(ahead)
    assert read == [*LINES[:1], *LINES[:2]]


def test_a_stream_refuses_what_translate_refuses(translator: Translator) -> None:
    with pytest.raises(TypeError, match="there is no option `beams`"):
        translator.stream(LINES, beams=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="`lookahead` is 0"):
        list(translator.stream(LINES, lookahead=0))
    for prefixes, count in ((["gip"], 1), (["gip", "gip", ""], 3), (["gip", "gip", "", "gip", "gip", "gip"], 6)):
        with pytest.raises(ValueError, match="prefixes for"):
            list(translator.stream(LINES, prefix=prefixes, lookahead=100 if count < 4 else 2))


@pytest.mark.parametrize("options", [{}, {"n_best": 3}, {"greedy": True}, {"temperature": 1.0, "seed": 3}], ids=str)
@pytest.mark.parametrize("symbols", [{"begin": 2, "end": 2}, {"begin": 1, "end": 2}], ids=str)
def test_translations_are_not_empty_where_one_symbol_begins_and_ends(
    translator: Translator, options: dict[str, Any], symbols: dict[str, int]
) -> None:
    """The beam's first end symbol was once looked for from the begin symbol on, and the end was banned as a begin."""
    fresh = random_translator(translator, symbols={"pad": 0, **symbols})
    fresh.models[0].eval()
    lines = [line for line in LINES if line]
    results = fresh.translate_records(lines, **options)
    for line, result in zip(lines, results, strict=True):
        bound = len(translator.source.encode([line])[0]) + 1 + 4
        for translation in result if isinstance(result, list) else [result]:
            assert 0 < len(translation.tokens) <= bound
            log_probabilities = token_log_probabilities(fresh, line, translation.tokens)
            written = len(translation.tokens) + (len(translation.tokens) < bound)  # the end symbol, unless cut
            assert translation.log_probability == pytest.approx(log_probabilities[:written].sum(), abs=1e-3)


def token_log_probabilities(translator: Translator, line: str, tokens: list[int]) -> np.ndarray:
    """The log-probabilities of `tokens` and the end symbol, by one forward pass."""
    model, symbols = translator.models[0], translator.torch_engine.symbols
    with torch.inference_mode():
        source = torch.tensor([[*translator.source.encode([line])[0], symbols.end]])
        states = model(source, source != symbols.pad, torch.tensor([[symbols.begin, *tokens]])).states
        return model.readout(states)[0][range(len(tokens) + 1), [*tokens, symbols.end]].double().numpy()


def test_a_model_that_begins_with_its_end_symbol_may_end_after_a_token(translator: Translator) -> None:
    """The end symbol was once banned with the begin symbol, so that every translation ran to its bound.

    Without a length penalty nothing is more probable than to end soon, for a model that has learned nothing.
    """
    fresh = random_translator(translator, symbols={"pad": 0, "begin": 2, "end": 2})
    fresh.models[0].eval()
    translation = fresh.translate_records("cat dog", beam=fresh.target.size, length_penalty=0.0)
    assert len(translation.tokens) == 1
    expected = sum(token_log_probabilities(fresh, "cat dog", translation.tokens))
    assert translation.log_probability == pytest.approx(expected, abs=1e-3)


def test_searches_begin_with_the_models_own_settings(translator: Translator) -> None:
    """`Method()` once had the paper's beam and length penalty, whatever the model directory had."""
    model_decoding = Decoding(beam=7, length_penalty=1.3, extra_length=9, margin=2.0)
    assert search_method(model_decoding) == SearchMethod(model_decoding)
    assert search_method(model_decoding, beam=3).decoding == model_decoding.model_copy(update={"beam": 3})
    assert search_method(model_decoding, margin=float("inf")).decoding.margin is None
    with pytest.raises(TypeError):
        SearchMethod()  # type: ignore[call-arg]
    assert translator.decoding == Decoding(beam=2, length_penalty=0.6, extra_length=4)
    wider = Translator.of_models(translator.models, translator.source, translator.target, Decoding(beam=3))
    assert len(wider.translate_records("gnu hen ibis jay kite", n_best=3)) == 3
    with pytest.raises(ValueError, match="a beam of 2 gives at most 2"):
        translator.translate_records("cat dog", n_best=3)


def test_recipes_load_with_changes(micro: Path) -> None:
    path = micro / "recipe.yaml"
    assert Recipe.load(path).training.steps == 12
    assert Recipe.load(str(path), ["training.steps=3", "model.dropout=0.0"]).training.steps == 3
    assert Recipe.load(path, (change for change in ["model.dropout=0.0"])).model.dropout == 0.0
    with pytest.raises(ValueError, match=r"training\.step"):
        Recipe.load(path, ["training.step=3"])


def test_train_is_a_generator_that_yields_steps_and_returns_the_result(micro: Path, tmp_path: Path, log_lines) -> None:
    from transduce.run.train import train as generator

    assert train is generator
    assert inspect.isgenerator(train(Recipe.load(micro / "recipe.yaml"), tmp_path / "unread"))
    recipe = Recipe.load(micro / "recipe.yaml", ["training.steps=6"])
    threads, is_deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    steps = train(recipe, str(tmp_path / "run"), device="cpu", threads=threads + 1)
    assert not (tmp_path / "run").exists()
    first = [next(steps) for _ in range(5)]
    assert [record.step for record in first] == [1, 2, 3, 4, 5]
    assert all(0 < record.loss < 20 for record in first)
    assert torch.get_num_threads() == threads + 1
    steps.close()
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == (threads, is_deterministic)
    results = []

    def resumed() -> Generator[StepRecord, None, None]:
        results.append((yield from train(recipe, tmp_path / "run", device="cpu", threads=1)))

    assert [record.step for record in resumed()] == [5, 6]  # after the checkpoint of step 4
    assert results[0].step == 6
    assert log_lines
    assert isinstance(Translator.load(tmp_path / "run").translate_records("cat dog"), Translation)
