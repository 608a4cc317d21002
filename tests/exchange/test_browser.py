"""The page: its tokenizer in node, its files, the fetching of onnxruntime-web, and translations in Chromium."""

import hashlib
import importlib
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from models import SEPARATE, TEXT, spec_of, write_random_model

from transduce.exchange import browser_format
from transduce.exchange.browser_format import add_runtime, runtime_folder
from transduce.exchange.export_model import export
from transduce.exchange.onnx_format import OnnxEngine
from transduce.model_directory.model import Model
from transduce.text.normalisation import normalise
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

HERE = Path(__file__).parent
PAGE = Path(browser_format.__file__).parent / "page"
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

ODD = [
    "",
    " ",
    "  two  spaces, a\ttab ",
    "NUL \0, CRLF \r\n, NEL \x85, line separator \u2028, BOM \ufeff, no-break \u00a0 and narrow \u202f spaces",
    "👩‍👩‍👧 🇩🇪 e\u0301 ñ \u200b\u200d 日本語 العربية עִברִית हिन्दी",
    "</s> <s> <pad> ⟨/s⟩ ⟨s⟩ ⟨pad⟩ ‿x Ġ Ċ",
    "don't can’t ''quoted'' x² Ⅷ ½ 12345 ١٢٣ a1b2",
    "a" * 200 + " " * 150 + "9" * 80 + "!" * 70 + "\t" * 65 + "end",
    "\U0010ffff \ue000 \u0378 \U000e0001",
]

UNSEEN = "\t\u0085\u00a0\u00ad\u0301\u200b\u200c\u200d\u2028\u202f\u3000\ufeff\uff01\uff21क\u094d漢ｱ"


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("side", [None, "source", "target"])
@pytest.mark.parametrize("spec", [Bpe(size=330), WordPiece(size=580)], ids=["bpe", "wordpiece"])
def test_the_tokenizer_of_the_page_equals_ours(spec, side, tmp_path):
    subwords = Subwords.learn(TEXT * 2 + ["👩‍👩‍👧 don't", "don't don't"], spec, side)
    subwords.save(tmp_path / "tokenizer.json")
    drawn = random.Random(3)
    alphabet = [*"".join(ODD + TEXT), *map(chr, range(1, 0x300, 7)), *UNSEEN]
    texts = ODD + TEXT + ["".join(drawn.choices(alphabet, k=drawn.randrange(60))) for _ in range(300)]
    # Random tokens give bytes that are not UTF-8.
    rows = [drawn.choices(range(subwords.size), k=drawn.randrange(12)) for _ in range(300)]
    shutil.copy(PAGE / "tokenizer.js", tmp_path / "tokenizer.mjs")
    command = [NODE, HERE / "tokenize.mjs", tmp_path / "tokenizer.mjs", tmp_path / "tokenizer.json"]
    request = json.dumps({"texts": texts, "rows": rows})
    answer = json.loads(subprocess.run(command, input=request, capture_output=True, check=True, text=True).stdout)
    copies = [normalise(text, "target") if side else text for text in texts]
    assert answer == {"rows": subwords.encode(texts), "texts": subwords.decode(rows), "copies": copies}


UPPER_CASE = """
export class LongLineError extends Error {}
export class Translator {
  static load() { return new Translator(); }
  async translate(line) {
    if (line.length > 9) throw new LongLineError("has too many subwords.");
    return line.toUpperCase();
  }
}
"""


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_worker_of_the_page_leaves_out_a_line_that_is_too_long_and_names_it(tmp_path):
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "translator.js").write_text(UPPER_CASE)
    shutil.copy(PAGE / "worker.js", tmp_path)
    command = [NODE, HERE / "work.mjs", tmp_path / "worker.js"]
    lines = json.dumps(["cat", "a line that is too long", "dog"])
    answer = subprocess.run(command, input=lines, capture_output=True, check=True, text=True, timeout=60).stdout
    messages = [json.loads(line) for line in answer.splitlines()]
    assert [message["text"] for message in messages if message["kind"] == "line"] == ["CAT", "", "DOG"]
    assert messages[-1] == {"kind": "error", "id": 1, "message": "Line 2 has too many subwords."}


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """A package of npm with two small files, whose checksums are those that are expected, and an empty cache."""
    package = tmp_path / "package"
    (package / "dist").mkdir(parents=True)
    checksums = {}
    for name in browser_format.CHECKSUMS:
        content = f"// {name}".encode()
        (package / "dist" / name).write_bytes(content)
        checksums[name] = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(browser_format, "CHECKSUMS", checksums)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return package


def install_npm(folder, monkeypatch, script):
    """Puts a program `npm` into the search path, the only one there; the program runs a Python script."""
    folder.mkdir(exist_ok=True)
    (folder / "npm").write_text(f"#!{sys.executable}\n{script}")
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_npm_fetches_the_runtime_once(runtime, tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "packed.tgz", "w:gz") as archive:
        archive.add(runtime, "package")
    counted = f"""
import pathlib, shutil, sys
folder = sys.argv[sys.argv.index("--pack-destination") + 1]
shutil.copy({str(tmp_path / "packed.tgz")!r}, folder + "/onnxruntime-web-{browser_format.VERSION}.tgz")
pathlib.Path({str(tmp_path / "calls")!r}).open("a").write(sys.argv[2] + " ")
"""
    install_npm(tmp_path / "bin", monkeypatch, counted)
    for _ in range(2):
        folder = runtime_folder()
        assert {path.name for path in folder.iterdir()} == set(browser_format.CHECKSUMS)
    assert (tmp_path / "calls").read_text() == f"onnxruntime-web@{browser_format.VERSION} "
    (folder / "ort.wasm.bundle.min.mjs").write_text("damaged")
    assert runtime_folder() == folder
    assert (folder / "ort.wasm.bundle.min.mjs").read_text() == "// ort.wasm.bundle.min.mjs"


def test_without_npm_the_message_has_the_commands_and_a_folder_will_do(runtime, tmp_path, monkeypatch):
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"npm, .*, is not installed: run `npm pack .*`--runtime package`"):
        runtime_folder()
    add_runtime(runtime)
    assert runtime_folder().is_dir()


def test_the_message_of_npm_is_shown(runtime, tmp_path, monkeypatch):
    install_npm(tmp_path / "bin", monkeypatch, "import sys; sys.exit('npm error network is cut')")
    with pytest.raises(ValueError, match=r"npm cannot fetch .* \(npm error network is cut\): run `npm pack"):
        runtime_folder()


def test_a_damaged_archive_of_npm_is_refused(runtime, tmp_path, monkeypatch):
    script = "import pathlib, sys\nfolder = sys.argv[sys.argv.index('--pack-destination') + 1]\n"
    archive = f"{browser_format.PACKAGE}-{browser_format.VERSION}.tgz"
    install_npm(tmp_path / "bin", monkeypatch, f"{script}pathlib.Path(folder, {archive!r}).write_bytes(b'damaged')")
    with pytest.raises(ValueError, match="the archive that npm fetched is damaged"):
        browser_format.runtime_folder()


def test_a_runtime_that_is_another_is_refused(runtime):
    (runtime / "dist" / "ort.wasm.bundle.min.mjs").write_text("malice")
    with pytest.raises(ValueError, match=r"ort.wasm.bundle.min.mjs differs from the one of onnxruntime-web"):
        add_runtime(runtime)
    (runtime / "dist" / "ort.wasm.bundle.min.mjs").unlink()
    with pytest.raises(ValueError, match=r"has no ort\.wasm\.bundle\.min\.mjs"):
        add_runtime(runtime)


def test_the_folder_is_whole_and_names_no_other_host(runtime, tmp_path):
    add_runtime(runtime)
    model = Model.read(write_random_model(tmp_path / "run", spec_of(SEPARATE)))
    folder = tmp_path / "page"
    folder.mkdir()
    browser_format.write(model, folder, "int8")
    settings = json.loads((folder / "page.json").read_text())
    assert settings["languages"] == {"source": "en", "target": "de"}
    assert settings["decoding"]["extra_length"] == 5
    assert settings["symbols"] == {"pad": 0, "begin": 1, "end": 2}
    for graph in settings["graphs"]:
        assert (folder / graph["file"]).stat().st_size == graph["bytes"]
    assert [Subwords.parse(side.as_json().encode(), place="").size for side in (model.source, model.target)] == [
        len(json.loads((folder / name).read_text())["model"]["vocab"]) for name in settings["tokenizers"]
    ]
    page = (folder / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'self'" in policy[1]
    assert not re.search(r"unsafe-inline|unsafe-eval|\*", policy[1].replace("wasm-unsafe-eval", ""))
    for asset in PAGE.iterdir():
        text = (folder / asset.name).read_text()
        addresses = set(re.findall(r"https?://[^\s\"'<,]*", text))
        assert addresses <= {"http://localhost:8000"}
        # Every file that a page names is in the folder.
        for name in re.findall(r"(?:from|src=|href=) ?\"\.?/?([\w/.-]+\.(?:js|css|mjs))\"", text):
            assert (folder / name).is_file(), name
    assert OnnxEngine(folder).translate(["the cat"], [9])


@pytest.fixture
def benchmark(monkeypatch):
    """The benchmark of the page, which drives Chromium."""
    monkeypatch.syspath_prepend(str(HERE.parents[1] / "stress"))
    return importlib.import_module("browser")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm, which fetches onnxruntime-web, is not installed")
def test_chromium_translates_as_the_model_does_and_asks_for_nothing_foreign(fluent, benchmark, tmp_path):
    export(fluent, "browser", tmp_path / "page", "float32", 0)
    translator = Translator.load(fluent)
    lines = ["ant bee cat", "owl pig", "", "newt </s> ⟨/s⟩ kite 👩‍👩‍👧", "jay lark gnu mole fox eel hen"]
    with benchmark.served(tmp_path / "page") as (address, _), benchmark.chromium() as page:
        benchmark.open_page(page, address)
        for search, greedy in enumerate((True, False)):
            method = SearchMethod(translator.decoding, greedy=greedy)
            here = [best[0].text for best in translator.translate_lines(lines, method)]
            assert benchmark.translate(page, lines, search).texts == here
        benchmark.check_requests(page, address)


def test_the_command_takes_the_runtime_and_writes_int8(fluent, runtime, tmp_path, command):
    out = tmp_path / "page"
    code, stdout, stderr = command(
        "export", fluent, "--to", "browser", "--out", out, "--runtime", runtime, "--sentences", "0"
    )
    assert (code, stdout) == (0, f"{out}\n"), stderr
    assert json.loads((out / "parity.json").read_text())["precision"] == "int8"
    assert (out / "onnx" / "encoder_model_quantized.onnx").is_file()
    code, _, stderr = command("export", fluent, "--to", "onnx", "--out", tmp_path / "other", "--runtime", runtime)
    assert code == 2
    assert "--runtime is for --to browser: leave it out with --to onnx" in stderr
