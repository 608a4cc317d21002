"""Exports a model as a folder with a web page that translates in the browser, without requests to other hosts.

The folder is an ONNX export of the model. The page runs its graphs with onnxruntime-web, and has a tokenizer and a
search of its own.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path

from transduce.exchange import onnx_format
from transduce.exchange.hugging_face_format import TARGET_FOLDER, write_json
from transduce.model_directory.model import Model
from transduce.storage.atomic import atomic_write
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import share_subwords
from transduce.translation.batching import MAX_LINE_TOKENS
from transduce.translation.engine import SearchRules

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"

CHECKSUMS = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
"""SHA-256 checksums of the files in this version that the page needs. The files are under the MIT licence."""

TIMEOUT = 600.0  # seconds to download 33 MB
BY_HAND = (
    f"run `npm pack {PACKAGE}@{VERSION} && tar xzf {PACKAGE}-{VERSION}.tgz`, where npm and a network are, and give the "
    "folder: `--runtime package`"
)

RUNTIME = "runtime"  # the folder in the export that contains onnxruntime-web
READ_ME = files(__package__) / "templates" / "browser_read_me.md"


def write(model: Model, folder: Path, precision: str) -> None:
    """Writes the graphs, the tokenizers, the page, its settings and onnxruntime-web to `folder`.

    Raises ValueError if onnxruntime-web is not in the cache and npm cannot download it.
    """
    shutil.copytree(runtime_folder(), folder / RUNTIME)
    onnx_format.write(model, folder, precision)
    with as_file(files("transduce.exchange") / "page") as page:
        for asset in page.iterdir():
            shutil.copyfile(asset, folder / asset.name)
    config, limit = model.config, model.module.max_positions
    graphs = [f"{onnx_format.GRAPHS}/{name}" for name in onnx_format.graph_files(precision)]
    assert isinstance(model.source, Subwords)
    write_json(
        folder / "page.json",
        {
            "languages": {"source": config.source_language, "target": config.target_language},
            "symbols": config.model.symbols.as_dictionary(),
            "decoding": config.decoding.as_dictionary(),
            "rules": SearchRules.of(config.model.symbols, model.target)._asdict(),
            "max_tokens": MAX_LINE_TOKENS if limit is None else min(limit - 1, MAX_LINE_TOKENS),
            "graphs": [{"file": name, "bytes": (folder / name).stat().st_size} for name in graphs],
            "tokenizers": [
                "tokenizer.json",
                *([f"{TARGET_FOLDER}/tokenizer.json"] if not share_subwords((model.source, model.target)) else []),
            ],
        },
    )
    (folder / "README.md").write_text(READ_ME.read_text("utf-8").format(version=VERSION), "utf-8", newline="\n")


def runtime_folder() -> Path:
    """Returns the cache folder with the files that `CHECKSUMS` lists.

    Files that are missing or damaged are first downloaded with npm. Raises ValueError, with the commands to run by
    hand, if npm cannot download them.
    """
    folder = _cache()
    if not all((folder / name).is_file() and _checksum(folder / name) == value for name, value in CHECKSUMS.items()):
        with tempfile.TemporaryDirectory() as temporary:
            _npm_pack(Path(temporary))
            add_runtime(Path(temporary))
    return folder


def add_runtime(folder: Path) -> None:
    """Copies the files that the page needs from an unpacked npm package in `folder` to the cache.

    Raises ValueError if a file is missing or its checksum differs from `CHECKSUMS`.
    """
    source = folder / "dist" if (folder / "dist").is_dir() else folder
    for name, checksum in CHECKSUMS.items():
        if not (source / name).is_file():
            raise ValueError(f"{source} has no {name}, so it is not {PACKAGE} {VERSION}: {BY_HAND}")
        if _checksum(source / name) != checksum:
            raise ValueError(f"{source / name} differs from the one of {PACKAGE} {VERSION}: {BY_HAND}")
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    for name in CHECKSUMS:
        atomic_write(cache / name, partial(shutil.copyfile, source / name))


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "transduce" / f"{PACKAGE}-{VERSION}"


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _npm_pack(folder: Path) -> None:
    """Downloads the archive of the npm package to `folder`, and unpacks the files that the page needs.

    Raises ValueError if npm is not installed, if it cannot download the package, or if the archive is damaged.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(f"the page needs {PACKAGE}, and npm, which fetches it, is not installed: {BY_HAND}")
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, encoding="utf-8", timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ValueError(f"npm did not fetch {PACKAGE} in {TIMEOUT:g} seconds: {BY_HAND}") from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip() or f"exit code {error.returncode}").splitlines()[-1]
        raise ValueError(f"npm cannot fetch {PACKAGE} ({reason}): {BY_HAND}") from None
    try:
        with tarfile.open(folder / f"{PACKAGE}-{VERSION}.tgz") as package:
            for name in CHECKSUMS:
                member = package.extractfile(f"package/dist/{name}")
                assert member is not None
                (folder / name).write_bytes(member.read())
    except (tarfile.TarError, KeyError, EOFError, zlib.error) as error:
        raise ValueError(f"the archive that npm fetched is damaged ({error}): {BY_HAND}") from None
