"""The rules of our search in every engine and in every documented program, with models that would break each rule.

The demo's own model could not be exported to CTranslate2, whose search chose padding on odd lines.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from models import spec_of, write_random_model

from transduce.exchange.ctranslate2_folder import load_ctranslate2
from transduce.exchange.export_model import FORMATS, export, with_banned_tokens
from transduce.exchange.parity import EngineTranslation, ParityError, compare
from transduce.model_directory.model import Model
from transduce.model_directory.writing import write_model
from transduce.search.beam import Decoding
from transduce.translation.engine import SearchRules
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
HERE = Path(__file__).parent
NODE = shutil.which("node")
LINES = ["cat", "a dog and a bird sing", "👩‍👩‍👧 日本語 </s> <pad>"]

# What is added to the logits of pad, begin and end.
EAGER = {
    "would rather pad": (60.0, 50.0, 40.0),
    "would rather begin": (50.0, 60.0, -40.0),
    "would rather end": (-40.0, 50.0, 60.0),
    "would rather go on": (0.0, 0.0, -60.0),
}


def write_eager_model(folder: Path, logits: tuple[float, float, float]) -> Path:
    """Writes a random model whose readout prefers some symbols, and that may write 50 tokens more than its source."""
    model = Model.read(write_random_model(folder / "plain", spec_of({"readout": {"kind": "tied", "bias": True}})))
    with torch.no_grad():
        model.module.readout.bias[:3] += torch.tensor(logits)
    config = model.config.model_copy(update={"decoding": Decoding(beam=3, extra_length=50)})
    weights = dict(model.module.named_parameters())
    write_model(folder / "run", config, weights, (model.source, model.target), {"README.md": "", "recipe.yaml": "{}"})
    return folder / "run"


def by_engine(target: str) -> Callable[[Path, Path], list[str]]:
    """Returns a function that translates as parity does."""

    def translate(run: Path, folder: Path) -> list[str]:
        model = Model.read(run)
        bounds = [len(tokens) + 51 for tokens in model.source.encode(LINES)]
        return [each.text for each in FORMATS[target].open_engine(folder, model, ()).translate(LINES, bounds)]

    return translate


def by_guide(page: str, **options: int) -> Callable[[Path, Path], list[str]]:
    """Returns a function that translates with the program of a guide, which names another folder."""

    def translate(run: Path, folder: Path) -> list[str]:
        (program,) = re.findall(r"^```python\n(.*?)^```", (GUIDES / page).read_text(), flags=re.MULTILINE | re.DOTALL)
        namespace: dict = {}
        exec(re.sub('"exported/[a-z0-9]+"', f'"{folder}"', program), namespace)
        return [" ".join(namespace["translate"](line, **options).split("\n")) for line in LINES]

    return translate


def by_card(run: Path, folder: Path) -> list[str]:
    """Translates by Hugging Face's `generate` as the model card does, with the greedy search and the bound added."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    texts = []
    for line in LINES:
        inputs = tokenizer([line], return_tensors="pt", padding=True)
        output = model.generate(**inputs, num_beams=1, max_length=inputs.input_ids.shape[1] + 51)
        texts += tokenizer.batch_decode(output, skip_special_tokens=True)
    return [" ".join(text.split("\n")) for text in texts]


def by_command(run: Path, folder: Path) -> list[str]:
    """Translates as `transduce translate --engine ctranslate2` does."""
    translator = load_ctranslate2(folder)
    method = SearchMethod(translator.decoding, greedy=True)
    return [best[0].text for best in translator.translate_lines(LINES, method)]


WAYS = {
    "ctranslate2": [by_engine("ctranslate2"), by_command, by_guide("other-engines.md", beam=1)],
    "hugging-face": [by_engine("hugging-face"), by_card],
    "onnx": [by_engine("onnx"), by_guide("onnx-and-browser.md")],
}


@pytest.mark.parametrize("target", WAYS)
@pytest.mark.parametrize("logits", EAGER.values(), ids=EAGER)
def test_every_engine_and_documented_program_has_the_rules_of_our_search(logits, target, tmp_path) -> None:
    run = write_eager_model(tmp_path, logits)
    expected = Translator.load(run).translate(LINES, greedy=True)
    assert not export(run, target, tmp_path / "exported", "float32", 0).differences
    for way in WAYS[target]:
        assert way(run, tmp_path / "exported") == expected


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("beam", [1, 3])
def test_the_search_of_the_page_bans_what_the_settings_of_the_page_ban(beam: int, tmp_path: Path) -> None:
    model = Model.read(write_random_model(tmp_path / "run", spec_of()))
    rules = SearchRules.of(model.config.model.symbols, model.target)
    page = Path(export.__code__.co_filename).parent / "page"
    shutil.copy(page / "search.js", tmp_path / "search.mjs")
    script = f"""
      import {{ search }} from "{tmp_path}/search.mjs";
      const logits = new Float32Array(9);
      logits[0] = 60; logits[1] = 50; logits[2] = 40; logits[7] = 1;
      const stepper = {{ step: async (tokens) => tokens.map(() => logits.slice()), pick: () => {{}} }};
      const rules = {json.dumps(rules._asdict())};
      const problem = {{ beam: {beam}, alpha: 0.6, bound: 9, begin: 1, end: 2, banned: rules.banned, bannedFirst: rules.banned_first }};
      console.log(JSON.stringify(await search(stepper, problem, async () => true)));
    """  # noqa: E501
    ended = subprocess.run([NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == [7]


@pytest.mark.parametrize("target", [name for name, each in FORMATS.items() if each.bans_in_weights])
@pytest.mark.parametrize("bias", [False, True])
def test_the_exported_weights_have_the_ban_and_nothing_else(target: str, bias: bool, tmp_path: Path) -> None:
    model = Model.read(write_random_model(tmp_path / "run", spec_of({"readout": {"kind": "tied", "bias": bias}})))
    banning = with_banned_tokens(model)
    before, after = dict(model.module.named_parameters()), dict(banning.module.named_parameters())
    added = after.pop("readout.bias")
    original = before.pop("readout.bias", torch.zeros_like(added))
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)
    assert (added != original).nonzero().flatten().tolist() == [0, 1]
    assert added.half().isfinite().all()


class OtherEngine:
    """An engine with our scores and translations of its own."""

    def __init__(self, translator: Translator, change: Callable[[str, list[int]], EngineTranslation]) -> None:
        self.translator, self.score, self.change = translator, translator.token_scores, change

    def translate(self, lines: list[str], bounds: list[int]) -> list[EngineTranslation]:
        ours = self.translator.translate_records(lines, greedy=True)
        return [self.change(each.text, list(each.tokens)) for each in ours]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text, tokens: EngineTranslation("", [0, 0]), "writes <pad> in its translation of 'cat'"),
        (lambda text, tokens: EngineTranslation(text, [*tokens, 0]), "writes <pad> in its translation of 'cat'"),
        (lambda text, tokens: EngineTranslation(text + "!", tokens), "makes another text of the same tokens"),
    ],
    ids=["padding", "padding that is not seen", "other text"],
)
def test_parity_refuses_what_an_engine_never_may_write(change, message, fluent) -> None:
    """Of padding, parity once said that the engine ends before the first token."""
    translator = Translator.load(fluent)
    with pytest.raises(ParityError, match=message):
        compare(translator, OtherEngine(translator, change), ["cat"], None)
