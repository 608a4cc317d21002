"""Compares what two versions of the code compute, byte by byte: `python stress/old_against_new.py COMMIT`.

The code of COMMIT trains four small models and writes records: text, n-best lists, scores, alignments and JSON of each
model by compiled search, by torch and in int8; documents; replies of the server; parity of the exports; losses and
checksums of tensors of runs that were killed and resumed. The code of this working tree writes the same records from
the same models. Every record that differs is printed with its first difference, and the exit code is 1.

Models and records are kept in `--folder`, so that the records of COMMIT are made once. A refactoring must leave all
records equal. Where a command or a file gets another name, change it below: the records keep their names. Where a
tensor or a key of recipes gets another name, note it in `RENAMED_TENSORS` or `RENAMED_KEYS`, until no COMMIT to compare
with has the old name.

    python stress/old_against_new.py HEAD~1
    python stress/old_against_new.py record FOLDER/models OUT    # with the code that Python imports
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = os.environ.get("TRANSDUCE_DATA", "")

ODD_LINES = ["", "a", "  two  spaces and a\ttab ", "naïve café, 12.345,67 €", "👩‍👩‍👧 日本語 </s>", "again " * 120]

ATTENTION = "{heads: 2, d_k: 16, d_v: 16}"
EMBEDDED = """
data: {train: {embedded: train}, source_language: en, target_language: de}
subwords: {kind: bpe, size: 2000}
"""
TREES = """
data:
  train: {embedded_trees: train}
  linearisation: {kind: in_order}
  source_language: en
subwords: {size: 1000}
"""
MULTI30K = """
data:
  train: {source: "${TRANSDUCE_DATA}/multi30k/train.en", target: "${TRANSDUCE_DATA}/multi30k/train.de"}
  source_language: en
  target_language: de
subwords: {kind: bpe, size: 4000, shared: false}
"""
TRAINING = """
training:
  steps: 200
  batch_tokens: 1024
  precision: float32
  schedule: {kind: linear, warmup: 50, peak: 0.005}
  optimiser: {kind: muon}
  save_every: 100
  average: null
"""
SMALL = f"""
model:
  preset: PRESET
  d_model: 32
  encoder_layers: 1
  decoder_layers: 1
  mixer: {ATTENTION}
  cross: {ATTENTION}
"""
BASELINE = """
model: {preset: PRESET, d_model: 64}
"""

MODELS = {
    "demo": EMBEDDED + "model: {preset: tiny, norm: pre, dropout: 0.0}" + TRAINING,
    "multi30k": MULTI30K + "model: {preset: tiny, dropout: 0.1, embeddings: separate}" + TRAINING,
    "rnnsearch": EMBEDDED + BASELINE.replace("PRESET", "rnnsearch") + TRAINING.replace("muon", "adam"),
    "parser": TREES + SMALL.replace("PRESET", "parser-small") + TRAINING,
}
"""Recipes of the models whose output is recorded. Multi30k needs TRANSDUCE_DATA."""

FORMS = {
    "transformer": EMBEDDED + SMALL.replace("PRESET", "tiny") + TRAINING,
    "rnnsearch": EMBEDDED
    + BASELINE.replace("PRESET", "rnnsearch").replace("64", "32")
    + TRAINING.replace("muon", "adam"),
    "experts": EMBEDDED
    + SMALL.replace("PRESET", "experts")
    + "  feed_forward: {kind: experts, expert: {kind: feed_forward, d_ff: 64}, number: 4}\n"
    + TRAINING.replace("muon", "adam"),
    "two processes": EMBEDDED + SMALL.replace("PRESET", "tiny") + TRAINING + "  micro_batches: 2\n",
}
"""Recipes of the runs that are killed and resumed, and whose tensors are recorded."""


RENAMED_TENSORS = {"join": "output"}
"""Old and new parts of the names of tensors, such as `encoder.0.mixer.join.weight`."""

RENAMED_KEYS = {"longest": "max_length"}
"""Old and new keys of recipes."""


def transduce(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command of the code that Python imports; raises SystemExit with its message if it fails."""
    command = [sys.executable, "-m", "transduce", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return ended


def make_models(folder: Path) -> None:
    """Trains the models that are missing in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, recipe in MODELS.items():
        written = folder / f"{name}.yaml"
        is_made = (folder / name / "model.safetensors").exists() and written.read_text() == recipe
        if is_made or ("TRANSDUCE_DATA" in recipe and not DATA):
            continue
        print(f"training {name}", file=sys.stderr)
        shutil.rmtree(folder / name, ignore_errors=True)
        written.write_text(recipe)
        transduce("train", folder / f"{name}.yaml", "--out", folder / name, "--threads", 2)
        shutil.rmtree(folder / name / "training")


IN_ONE_PROCESS = """
import json, os, sys
without, commands = json.loads(sys.argv[1])
for name in without:
    sys.modules[name] = None
from transduce.commands import main
for path, arguments in commands:
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.close(out)
    try:
        main(arguments)
    except SystemExit as ended:
        if ended.code:
            raise SystemExit(f"{arguments} ended with {ended.code}")
    sys.stdout.flush()
"""
"""Runs commands one after another, each with its standard output in a file, without some packages."""


def run_commands(commands: Mapping[Path, list[object]], without: tuple[str, ...] = ()) -> None:
    """Writes the standard output of each command into its file, in one process."""
    listed = [(str(path), [str(argument) for argument in command]) for path, command in commands.items()]
    program = [sys.executable, "-c", IN_ONE_PROCESS, json.dumps([without, listed])]
    ended = subprocess.run(program, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr)


def source_lines(model: str) -> list[str]:
    """Returns lines for a model: of its corpus, and odd ones."""
    if model == "multi30k":
        return [*Path(DATA, "multi30k", "test_2016_flickr.en").read_text().split("\n")[:60], *ODD_LINES]
    from transduce.embedded import split

    examples = list(split("novel"))[:40]
    if model == "parser":
        return [example.source.replace(".", " .").replace(",", " ,") for example in examples]
    return [*(example.source for example in examples), *ODD_LINES]


def record_translations(models: Path, out: Path) -> None:
    """Records what each model writes: by compiled search, in int8, and by torch alone."""
    compiled: dict[Path, list[object]] = {}
    plain: dict[Path, list[object]] = {}
    sampling: list[object] = ["--temperature", 1]
    if "--sample " in transduce("translate", "--help").stdout:  # until 2026-11-28
        sampling.append("--sample")
    for model in MODELS:
        if not (models / model).is_dir():
            continue
        text = out / f"{model}.source"
        text.write_text("".join(line + "\n" for line in source_lines(model)))
        shared = ["parse" if model == "parser" else "translate", models / model, text, "--threads", 2]
        if model == "parser":
            compiled[out / f"{model} compiled.txt"] = shared
            plain[out / f"{model} torch.txt"] = shared
            continue
        ways: dict[str, list[object]] = {"beam 4": ["--beam", 4, "--n-best", 4], "beam 1": ["--greedy", "--scores"]}
        for way, options in ways.items():
            compiled[out / f"{model} compiled, {way}.txt"] = [*shared, *options]
            compiled[out / f"{model} int8, {way}.txt"] = [*shared, *options, "--precision", "int8"]
            plain[out / f"{model} torch, {way}.txt"] = [*shared, *options]
        compiled[out / f"{model} sampled.txt"] = [*shared, *sampling, "--seed", 3, "--scores"]
        compiled[out / f"{model}.json"] = [*shared, "--json"]
        if model != "rnnsearch":
            compiled[out / f"{model} alignments.txt"] = [*shared, "--alignments"]
        translated = out / f"{model} compiled, beam 1.txt"
        compiled[out / f"{model} info.json"] = ["info", models / model, "--json"]
        compiled[out / f"{model} measured.txt"] = [
            "measure",
            "--reference",
            text,
            translated,
            "--metric",
            "bleu,chrf,ter",
        ]
        compiled[out / f"{model} scored.txt"] = ["score", models / model, "--source", text, "--target", text]
    for path, command in compiled.items():
        if "measured" in path.name:  # a line of output for each line of source
            command[3] = path.with_name(path.name.replace("measured", "lines"))
    lines = {
        out / path.name.replace("compiled, beam 1", "lines"): [value for value in command if value != "--scores"]
        for path, command in compiled.items()
        if "compiled, beam 1" in path.name
    }
    run_commands({**lines, **compiled})
    run_commands(plain, without=("numba",))


def record_documents(models: Path, out: Path) -> None:
    """Records random documents of each format, translated."""
    sys.path.insert(0, str(ROOT / "tests" / "documents"))
    from random_documents import SENTENCES, WRITERS, random_pieces

    commands: dict[Path, list[object]] = {}
    (out / "documents").mkdir()
    for name, write in WRITERS.items():
        rng = random.Random(name)
        suffix = name if "." in name else f".{name}"
        document = out / "documents" / f"source{suffix}"
        document.write_bytes(write([random_pieces(rng, SENTENCES) for _ in range(6)]))
        arguments = [
            "translate-document",
            models / "demo",
            document,
            "--out",
            out / "documents" / f"target{suffix}",
            "--threads",
            2,
        ]
        commands[out / "documents" / f"printed{suffix}"] = arguments
    run_commands(commands)
    for path in (out / "documents").glob("*.docx"):  # a zip, whose times differ
        if path.stat().st_size:
            unpack(path)


def unpack(path: Path) -> None:
    """Replaces a zip by its members, one after another."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        members = [name.encode() + b"\n" + archive.read(name) + b"\n" for name in sorted(archive.namelist())]
    path.write_bytes(b"".join(members))


def record_exports(models: Path, out: Path) -> None:
    """Records the comparison of each export, and the names, shapes and checksums of what it wrote as safetensors."""
    targets = [("ctranslate2", "float32"), ("ctranslate2", "int8"), ("onnx", "float32"), ("onnx", "int8")]
    folder = out / "exports"
    folder.mkdir()
    commands: dict[Path, list[object]] = {}
    for target, precision in targets:
        exported = folder / f"{target}-{precision}"
        arguments = ["export", models / "demo", "--to", target, "--precision", precision, "--out", exported]
        commands[folder / f"{target} {precision}.txt"] = arguments
    if (models / "multi30k").is_dir():
        exported = folder / "hugging-face-float32"
        arguments = ["export", models / "multi30k", "--to", "hugging-face", "--out", exported]
        commands[folder / "hugging-face.txt"] = arguments
    run_commands(commands)
    for path in commands:
        path.unlink()  # the path of the folder
    for exported in [path for path in folder.iterdir() if path.is_dir()]:
        shutil.copy(exported / "parity.json", folder / f"{exported.name}.json")
        shutil.rmtree(exported)


REQUESTS: dict[str, tuple[str, object]] = {
    "languages": ("/languages", None),
    "translate": ("/translate", {"q": "The old man sees the dog.", "source": "en", "target": "de"}),
    "several": (
        "/translate",
        {"q": ["A dog. A cat!", "", "x " * 30], "source": "en", "target": "de", "alternatives": 2},
    ),
    "html": ("/translate", {"q": "<p>The <b>old</b> man</p>", "source": "en", "target": "de", "format": "html"}),
    "unknown language": ("/translate", {"q": "a", "source": "xx", "target": "de"}),
    "no text": ("/translate", {"source": "en", "target": "de"}),
    "missing": ("/nothing", None),
}


def record_server(models: Path, out: Path) -> None:
    """Records status and body of the server's replies."""
    (out / "server").mkdir()
    command = [sys.executable, "-m", "transduce", "serve", models / "demo", "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        while not (urls := re.findall(r"http://[\d.:]+", line := server.stderr.readline())):
            if not line:
                raise SystemExit("the server has ended")
        try:
            for name, (path, body) in REQUESTS.items():
                data = None if body is None else json.dumps(body).encode()
                request = urllib.request.Request(urls[0] + path, data, {"Content-Type": "application/json"})
                try:
                    with urllib.request.urlopen(request) as response:
                        status, content = response.status, response.read()
                except urllib.error.HTTPError as error:
                    status, content = error.code, error.read()
                (out / "server" / f"{name}.txt").write_bytes(f"{status}\n".encode() + content + b"\n")
        finally:
            server.send_signal(signal.SIGTERM)


def record_training(name: str, recipe: str, out: Path) -> None:
    """Trains, kills the run once, resumes it, and records losses and a checksum of each tensor."""
    import torch
    from safetensors.torch import load_file

    run = out / f"run of {name}"
    run.with_suffix(".yaml").write_text(recipe)
    processes = 2 if name == "two processes" else 1
    arguments = ["train", run.with_suffix(".yaml"), "--out", run, "--threads", 1, "--processes", processes]
    command = [sys.executable, "-m", "transduce", *map(str, arguments), "--set", "training.save_every=40"]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while started.poll() is None and not checkpoints(run):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    transduce(*arguments, "--set", "training.save_every=40")
    tensors = {
        tensor: hashlib.sha256(value.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        for tensor, value in sorted(load_file(run / "model.safetensors").items())
    }
    losses = [
        (record["step"], record["loss"])
        for record in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        if "loss" in record
    ]
    record = {"tensors": tensors, "losses": losses}
    (out / f"training {name}.json").write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(run)
    run.with_suffix(".yaml").unlink()


def checkpoints(run: Path) -> list[Path]:
    """Returns the finished checkpoints of a run."""
    return list((run / "training").glob("step-*"))


def record(models: Path, out: Path) -> None:
    """Writes all records into the new folder `out`."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    began = time.monotonic()
    parts = [record_translations, record_documents, record_exports, record_server]
    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(part, models, out) for part in parts]
        works += [pool.submit(record_training, name, recipe, out) for name, recipe in FORMS.items()]
        for work in works:
            work.result()
    print(f"{len(list(files_of(out)))} records in {time.monotonic() - began:.0f} s", file=sys.stderr)


def files_of(folder: Path) -> Iterator[str]:
    """Yields the names of the files in a folder, sorted."""
    yield from sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def new_tensor_name(name: str) -> str:
    """Returns the name that the code of this working tree gives a tensor of the old code."""
    return ".".join(RENAMED_TENSORS.get(part, part) for part in name.split("."))


def rename_models(models: Path, renamed: Path) -> None:
    """Copies the models of the old code into the new folder `renamed`, with the names of this working tree."""
    from safetensors.torch import load_file, save_file

    shutil.rmtree(renamed, ignore_errors=True)
    shutil.copytree(models, renamed)
    for manifest in renamed.glob("*/manifest.json"):
        weights, recipe = manifest.with_name("model.safetensors"), manifest.with_name("recipe.yaml")
        save_file({new_tensor_name(name): tensor for name, tensor in load_file(weights).items()}, weights)
        content = recipe.read_text()  # resolved recipes are JSON, in which a key stands before a colon
        for key, new_key in RENAMED_KEYS.items():
            content = content.replace(f'"{key}":', f'"{new_key}":')
        recipe.write_text(content)
        values = json.loads(manifest.read_text())
        for path in (weights, recipe):
            written = path.read_bytes()
            values["files"][path.name] = {"bytes": len(written), "sha256": hashlib.sha256(written).hexdigest()}
        manifest.write_text(json.dumps(values, indent=2) + "\n")


def comparable(name: str, content: bytes, *, is_old: bool) -> bytes:
    """Returns a record without what renaming changes: names of tensors, and the checksum of an exported model."""
    if not name.startswith(("training ", "exports/")) or not name.endswith(".json"):
        return content
    values = json.loads(content)
    values.pop("model", None)
    if is_old and "tensors" in values:
        values["tensors"] = {new_tensor_name(tensor): checksum for tensor, checksum in values["tensors"].items()}
    return json.dumps(values, sort_keys=True, indent=1).encode()


def differences(old: Path, new: Path) -> list[str]:
    """Returns a paragraph for each record that differs."""
    paragraphs = []
    for name in sorted({*files_of(old), *files_of(new)}):
        if not ((old / name).exists() and (new / name).exists()):
            paragraphs.append(f"{name}: only the {'old' if (old / name).exists() else 'new'} code writes it")
            continue
        before = comparable(name, (old / name).read_bytes(), is_old=True)
        after = comparable(name, (new / name).read_bytes(), is_old=False)
        if before != after:
            lines = zip([*before.split(b"\n"), b""], [*after.split(b"\n"), b""], strict=False)
            number, (left, right) = next((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1])
            paragraphs.append(f"{name}, line {number}:\n  old {left[:200]!r}\n  new {right[:200]!r}")
    return paragraphs


def main() -> None:
    """Parses the arguments; records, or compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", help="the old code, or the word `record`")
    parser.add_argument(
        "rest", nargs="*", type=Path, help="after `record`: the folder of the models, and the new folder"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "old-against-new", help="for models and records")
    arguments = parser.parse_args()
    if arguments.commit == "record":
        models, out = arguments.rest
        make_models(models)
        record(models, out)
        return
    folder: Path = arguments.folder.absolute()
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output([*git, "rev-parse", "--short", arguments.commit], text=True).strip()
    script, tree, new = "stress/old_against_new.py", folder / "tree", folder / "new"
    # A commit from before this script is recorded by this one, whose recipes may have changed since.
    has_script = not subprocess.run(
        [*git, "cat-file", "-e", f"{commit}:{script}"], stderr=subprocess.DEVNULL
    ).returncode
    version = "" if has_script else "-" + hashlib.sha256((ROOT / script).read_bytes()).hexdigest()[:8]
    old = folder / f"{commit}{version}"
    if not old.exists():
        shutil.rmtree(tree, ignore_errors=True)  # of a comparison that was killed
        subprocess.run([*git, "worktree", "prune"], check=True)
        subprocess.run([*git, "worktree", "add", "--force", "--detach", tree, commit], check=True, capture_output=True)
        try:
            if not has_script:
                (tree / script).parent.mkdir()
                shutil.copy(ROOT / script, tree / script)
            run_script(tree, script, folder / "models", folder / "writing")
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", tree], check=True)
        (folder / "writing").rename(old)
    rename_models(folder / "models", folder / "renamed models")
    run_script(ROOT, script, folder / "renamed models", new)
    differing = differences(old, new)
    print("\n".join(differing) or f"all records equal those of {commit}")
    raise SystemExit(bool(differing))


def run_script(tree: Path, script: str, models: Path, out: Path) -> None:
    """Has the code of a working tree write its records."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    subprocess.run([sys.executable, tree / script, "record", models, out], check=True, env=environment)


if __name__ == "__main__":
    main()
