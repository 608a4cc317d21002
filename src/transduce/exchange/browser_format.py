"""Models as a folder with a page that translates in the browser, without a server and without a foreign request.

The folder is an ONNX export, which the page's own tokenizer and search run by onnxruntime-web.
"""

import json
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.exchange import onnx_format
from transduce.exchange.browser_runtime import VERSION, runtime_folder
from transduce.exchange.hugging_face_tokenizer import TARGET_FOLDER
from transduce.text.subwords import Subwords
from transduce.translation.batching import MAX_LINE_TOKENS
from transduce.translation.engine import SearchRules

if TYPE_CHECKING:
    from transduce.exchange.onnx_engine import OnnxEngine
    from transduce.model_directory import Model

__all__ = ["MAX_POSITIONS", "check", "open_engine", "write"]

MAX_POSITIONS = onnx_format.MAX_POSITIONS
RUNTIME = "runtime"  # the folder of onnxruntime-web

READ_ME = f"""# A page that translates

This folder is a web page. Any file server serves it. `python -m http.server --bind 127.0.0.1` in this folder
serves it on this machine alone, at http://localhost:8000. It cannot be opened as a file, because browsers run no
modules and no WebAssembly from files.
The text that a reader types stays in the browser: the page requests nothing from other hosts.

`onnx` has the model, `tokenizer.json` its subwords, `page.json` the settings of the page. `parity.json` compares the
graphs of `onnx`, run by onnxruntime in Python, with the original; it does not compare the page's own code.
`runtime` has onnxruntime-web {VERSION} (MIT licence, © Microsoft Corporation).
"""


def check(model: "Model") -> None:
    """Raises ValueError where the page cannot represent the model, with the option."""
    onnx_format.check(model)


def write(model: "Model", folder: Path, precision: str) -> None:
    """Writes the graphs and tokenizers, the page, its settings and onnxruntime-web.

    Raises ValueError where onnxruntime-web is not cached and npm cannot fetch it.
    """
    shutil.copytree(runtime_folder(), folder / RUNTIME)
    onnx_format.write(model, folder, precision)
    with as_file(files("transduce.exchange") / "page") as page:
        for asset in page.iterdir():
            shutil.copyfile(asset, folder / asset.name)
    settings = json.dumps(_settings(model, folder, precision), indent=2)
    (folder / "page.json").write_text(settings + "\n", "utf-8", newline="\n")
    (folder / "README.md").write_text(READ_ME, "utf-8", newline="\n")


def open_engine(folder: Path, model: "Model") -> "OnnxEngine":
    """Returns onnxruntime with the model that `write` has put into `folder`."""
    return onnx_format.open_engine(folder, model)


def _settings(model: "Model", folder: Path, precision: str) -> dict[str, Any]:
    """Returns the content of `page.json`."""
    config, limit = model.config, model.module.max_positions
    graphs = [f"{onnx_format.GRAPHS}/{name}" for name in onnx_format.graph_files(precision)]
    assert isinstance(model.source, Subwords)
    return {
        "languages": {"source": config.source_language, "target": config.target_language},
        "symbols": config.model.symbols.as_dictionary(),
        "decoding": config.decoding.as_dictionary(),
        "rules": SearchRules.of(config.model.symbols, model.target)._asdict(),
        "max_tokens": MAX_LINE_TOKENS if limit is None else min(limit - 1, MAX_LINE_TOKENS),
        "graphs": [{"file": name, "bytes": (folder / name).stat().st_size} for name in graphs],
        "tokenizers": [
            "tokenizer.json",
            *([f"{TARGET_FOLDER}/tokenizer.json"] if model.source is not model.target else []),
        ],
    }
