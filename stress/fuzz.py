"""Runs real commands on real inputs with random damage: `python fuzz.py --seconds 600 --seed 1`.

Recipes, `--set` changes, corpora, subword files, model directories, stores, texts and options have bits flipped, and
are cut, spliced and swapped. A command must end within the limits of `mutations`, with code 0, or with code 2 and a
message. After code 0 nothing may be lost: the output has as many lines as the input, every pair is kept or counted, and
a file that was damaged after it was written is refused or made again. All else is a finding; `--only N` repeats try N
of a seed.
"""

import argparse
import collections
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from forked import preload
from mutations import (
    VALUES,
    WORDS,
    FindingError,
    gzip_and_mutate,
    mutate_bytes,
    mutate_values,
    run_command,
)
from small_run import RECIPE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "documents"))
from random_documents import WRITERS, random_pieces

from transduce.corpus import readers
from transduce.corpus.corpus_kinds import Files, Tsv
from transduce.corpus.pair_checks import Fault
from transduce.corpus.planner import Planner, Position
from transduce.corpus.store.preparation import open_store
from transduce.embedded import split
from transduce.inspection.line_checks import Check
from transduce.model_directory.manifest import MANIFEST
from transduce.storage.checksums import checksum_of
from transduce.text.byte_level import END
from transduce.text.subwords import Subwords


class Corpus(NamedTuple):
    """The inputs; every try damages a copy."""

    folder: Path
    run: Path
    recipes: list[bytes]
    texts: list[bytes]  # source, target, and both separated by a tab


CALIBRATION = json.dumps(
    {
        "version": 1,
        "sentences": 40,
        "scores": [0.1, 0.4, 0.9],
        "qualities": [0.2, 0.3, 0.8],
        "doubtful": 0.2,
        "length_ratio": [0.5, 2.0],
        "names": {"known": ["Anna"], "ordinary": ["the"]},
    }
).encode()

Try = Callable[[random.Random, Corpus, Path], None]


def try_recipe(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a recipe as text or as values."""
    recipe = rng.choice(corpus.recipes)
    if rng.random() < 0.5:
        content = mutate_bytes(recipe, rng, corpus.recipes)
    else:
        content = json.dumps(mutate_values(json.loads((corpus.run / "recipe.yaml").read_text()), rng)).encode()
    (folder / "recipe.yaml").write_bytes(content)
    run_command(folder, "info", folder / "recipe.yaml", *rng.choice(([], ["--json"])))


def try_change(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a `--set`."""
    keys = ["training.steps", "model", "model.mixer.heads", "subwords.size", "data.train", "data", "x..y", ""]
    key = rng.choice(keys)
    value = rng.choice((json.dumps(rng.choice(VALUES)).encode(), rng.choice(WORDS)))
    change = os.fsdecode(mutate_bytes(key.encode() + b"=" + value, rng, list(WORDS)).replace(b"\0", b""))
    (folder / "recipe.yaml").write_bytes(write_tsv_recipe(corpus, folder, corpus.texts[2]))
    run_command(folder, "train", folder / "recipe.yaml", "--prepare", "--out", folder / "out", f"--set={change}")


def write_tsv_recipe(corpus: Corpus, folder: Path, text: bytes) -> bytes:
    """Writes a TSV corpus into `folder`, and returns a recipe that trains on it."""
    (folder / "pairs.tsv").write_bytes(text)
    return corpus.recipes[0].replace(b"{embedded: train}", b"{tsv: pairs.tsv}")


def try_corpus(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages training text: every pair must be kept or counted, and used once an epoch."""
    source, target, both = corpus.texts
    plain = mutate_bytes(rng.choice((both, source)), rng, corpus.texts)
    recipe = write_tsv_recipe(corpus, folder, gzip_and_mutate(both, rng) if rng.random() < 0.2 else plain)
    spec: Tsv | Files = Tsv(tsv=str(folder / "pairs.tsv"))
    if rng.random() < 0.5:
        sides = [source, target]
        sides[rng.randrange(2)] = mutate_bytes(rng.choice(sides), rng, corpus.texts)
        for name, content in zip("st", sides, strict=True):
            (folder / name).write_bytes(content)
        recipe = recipe.replace(b"{tsv: pairs.tsv}", b"{source: s, target: t}")
        spec = Files(source=str(folder / "s"), target=str(folder / "t"))
    if rng.random() < 0.5:
        checks = {str(check): rng.choice(("keep", "drop", "drop", "refuse")) for check in rng.sample(list(Check), 3)}
        recipe = recipe.replace(b"data: {", f"data: {{checks: {json.dumps(checks)}, ".encode())
    (folder / "recipe.yaml").write_bytes(recipe)
    code, _, _ = run_command(folder, "train", folder / "recipe.yaml", "--prepare", "--out", folder / "out")
    if code == 0:
        check_store(spec, folder / "out" / "training" / "store")


def try_inspect(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a corpus that is inspected and split: every pair must be counted, and be in one set."""
    source, target, both = corpus.texts
    (folder / "pairs.tsv").write_bytes(mutate_bytes(both, rng, [source, target, both]))
    page = rng.choice(([], ["--html", folder / "page.html"]))
    code, output, _ = run_command(folder, "inspect", folder / "pairs.tsv", "--json", *page)
    pairs = sum(1 for _ in readers.read_byte_pairs(Tsv(tsv=str(folder / "pairs.tsv")))) if code == 0 else 0
    if code == 0 and json.loads(output)[0]["pairs"] != pairs:
        raise FindingError(f"inspect counts {json.loads(output)[0]['pairs']} of {pairs} pairs")
    sizes = [f"--validation={rng.choice((1, 10, 200))}", f"--test={rng.choice((0, 7))}"]
    if run_command(folder, "split", folder / "pairs.tsv", *sizes, "--out", folder / "split")[0] == 0:
        for side in ("source", "target"):
            lines = sum(path.read_bytes().count(b"\n") for path in (folder / "split").glob(f"*.{side}"))
            if lines != pairs:
                raise FindingError(f"split writes {lines} of {pairs} lines")


def check_store(spec: Tsv | Files, place: Path) -> None:
    """Raises FindingError for a pair that is neither stored nor counted, or is not used once an epoch."""
    prepared = open_store(place)
    report, store = prepared.report, prepared.train
    dropped = sum(count for fault, count in report.faults.items() if fault is not Fault.MARKUP)
    pairs = list(readers.read_byte_pairs(spec))
    if not report.read == len(pairs) == report.kept + dropped or report.kept != len(store):
        raise FindingError(
            f"{len(pairs)} pairs, {report.read} read, {report.kept} kept, {dropped} dropped, {len(store)} stored"
        )
    texts = [prepared.source.decode([store.sentence("source", number)])[0].encode() for number in range(len(store))]
    if missing := collections.Counter(texts) - collections.Counter(source for source, _ in pairs):
        raise FindingError(f"stored, and not in the corpus: {list(missing)[:3]}")
    planner = Planner(store, batch_tokens=4096, micro_batches=2, seed=1)
    sentences: collections.Counter[bytes] = collections.Counter()
    for step in planner.steps():
        sentences.update(
            np.trim_zeros(row, "b").tobytes() for micro_batch in step.micro_batches for row in micro_batch.source
        )
        if step.position == Position(1):
            break
    stored = (
        np.append(store.sentence("source", number), END).astype(np.int64).tobytes() for number in range(len(store))
    )
    if sentences != collections.Counter(stored):
        raise FindingError("an epoch does not use every pair once")


def try_subwords(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a subword file: it must be refused, or encode without loss."""
    content = (corpus.run / "tokenizer.json").read_bytes()
    if rng.random() < 0.5:
        content = json.dumps(mutate_values(json.loads(content), rng)).encode()
    else:
        content = mutate_bytes(content, rng, [content, *corpus.recipes])
    run = shutil.copytree(corpus.run, folder / "run", ignore=shutil.ignore_patterns("training"))
    reseal(run, "tokenizer.json", content)
    lines = [line for line in corpus.texts[rng.randrange(2)].decode().split("\n") if line][:3]
    code, out, _ = run_command(folder, "translate", run, stdin="\n".join(lines).encode())
    if code == 0:
        subwords = Subwords.parse(content, place="the damaged file")
        if out.count(b"\n") != len(lines) or subwords.decode(subwords.encode(lines)) != lines:
            raise FindingError("accepted, and loses text")


def reseal(run: Path, name: str, content: bytes) -> None:
    """Writes a file of a model directory, and its checksum into the manifest."""
    (run / name).write_bytes(content)
    manifest = json.loads((run / MANIFEST).read_text())
    manifest["files"][name] = checksum_of(content)
    (run / MANIFEST).write_text(json.dumps(manifest))


def try_model(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages, replaces or removes a file of a model directory: the commands must refuse it and name that file."""
    run = shutil.copytree(corpus.run, folder / "run", ignore=shutil.ignore_patterns("training"))
    names = ["config.json", "model.safetensors", "recipe.yaml", "tokenizer.json"]
    path = run / rng.choice([*names, MANIFEST])
    content = path.read_bytes()
    path.unlink()
    match rng.randrange(9):
        case 0:
            pass
        case 1:
            path.mkdir()
        case 2:
            os.mkfifo(path)
        case 3:
            path.symlink_to(rng.choice((path.name, "nowhere", "/dev/zero", "/dev/null", ".")))
        case 4:
            path.write_bytes((run / rng.choice([name for name in names if name != path.name])).read_bytes())
        case _:
            path.write_bytes(mutate_bytes(content, rng, [content]))
    is_intact = path.is_file() and path.read_bytes() == content
    for command in (["info", run, "--verify"], ["translate", run], ["info", run])[
        : 2 if path.name != "config.json" else 3
    ]:
        code, _, messages = run_command(folder, *command, stdin=b"a cat\n")
        if code == 0 and not is_intact and not (path.name == MANIFEST and has_same_files(path.read_bytes(), content)):
            raise FindingError(f"{command[0]} accepts a damaged {path.name}")
        if code == 2 and (is_intact or path.name not in messages) and path.name != MANIFEST:  # may blame any file
            raise FindingError(f"{command[0]} does not name {path.name}: {messages}")


def has_same_files(manifest: bytes, original: bytes) -> bool:
    """Whether two manifests have the same files with the same checksums."""
    return bool(json.loads(manifest)["files"] == json.loads(original)["files"])


def try_contents(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages configuration or weights of a model directory, with the right checksum in the manifest."""
    run = shutil.copytree(corpus.run, folder / "run", ignore=shutil.ignore_patterns("training"))
    name = rng.choice(("config.json", "config.json", "model.safetensors", "recipe.yaml", MANIFEST))
    content = (run / name).read_bytes()
    if name == "model.safetensors" or rng.random() < 0.3:
        content = mutate_bytes(content, rng, [content])
    else:
        content = json.dumps(mutate_values(json.loads(content), rng)).encode()
    if name == MANIFEST:
        (run / name).write_bytes(content)
    else:
        reseal(run, name, content)
    code, out, _ = run_command(folder, "translate", run, stdin=b"a cat\n\nthe dog\n")
    if code == 0 and out.count(b"\n") != 3:
        raise FindingError(f"three lines gave {out!r}")
    run_command(folder, "evaluate", run, "--test", rng.choice(("spare", "x")))
    run_command(folder, "info", run)


def try_store(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a prepared store: `prepare` must make the same store again."""
    (folder / "recipe.yaml").write_bytes(write_tsv_recipe(corpus, folder, corpus.texts[2]))
    command = ("train", folder / "recipe.yaml", "--prepare", "--out", folder / "out")
    run_command(folder, *command)
    store = folder / "out" / "training" / "store"
    before = store_contents(store)
    name = rng.choice(list(before))
    if rng.random() < 0.8:
        content = (store / name).read_bytes()
        (store / name).write_bytes(mutate_bytes(content, rng, corpus.recipes))
    else:
        (store / name).unlink()
    code, _, messages = run_command(folder, *command)
    if code or store_contents(store) != before:
        raise FindingError(f"{name} was damaged, and the store was not made again: {messages}")


def store_contents(store: Path) -> dict[str, object]:
    """Returns the content of each file of a store; of `store.json` its values without times and seal."""
    contents: dict[str, object] = {path.name: path.read_bytes() for path in store.iterdir()}
    description = json.loads((store / "store.json").read_bytes())
    description.pop("seal")
    for file in description["files"].values():
        file.pop("changed")
    return contents | {"store.json": description}


def try_text(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages text to translate, score and measure: the output must have as many lines as the input."""
    text = mutate_bytes(b"\n".join(corpus.texts[0].split(b"\n")[: rng.randint(0, 6)]), rng, corpus.texts[:2])[:20_000]
    lines = text.count(b"\n") + (not text.endswith(b"\n") and bool(text.removeprefix(b"\xef\xbb\xbf")))
    output_options = (["--beam=2"], *(["--beam=2", option] for option in ("--scores", "--json", "--alignments")))
    options = rng.choice((*output_options, ["--greedy"], ["--temperature", "1", "--seed", "3"]))
    code, out, messages = run_command(folder, "translate", corpus.run, *options, stdin=text)
    if code == 0 and out.count(b"\n") != lines:
        raise FindingError(f"{lines} lines gave {len(out.splitlines())} with {options}")
    if code == 2 and "UTF-8" not in messages and "markup" not in messages and "subwords" not in messages:
        raise FindingError(f"text refused: {messages}")
    (folder / "text").write_bytes(text)
    (folder / "other").write_bytes(mutate_bytes(text, rng, corpus.texts) if rng.random() < 0.5 else text)
    code, out, _ = run_command(
        folder, "score", corpus.run, "--source", folder / "text", "--target", "-", stdin=(folder / "other").read_bytes()
    )
    if code == 0 and out.count(b"\n") != lines:
        raise FindingError(f"{lines} lines gave {len(out.splitlines())} scores")
    metrics = rng.choice(("bleu", "chrf,ter"))
    run_command(folder, "measure", "--reference", folder / "text", folder / "other", "--metric", metrics)
    page = ("--differences", "--html", folder / "page.html", "--bootstrap", "2", "--language", rng.choice(("de", "zh")))
    run_command(folder, "measure", "--reference", folder / "text", folder / "text", folder / "other", *page)
    run_command(folder, "evaluate", corpus.run, "--source", folder / "text", "--reference", folder / "other")


def try_document(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a document: it must be refused, or come out whole."""
    kind = rng.choice(list(WRITERS))
    sentences = ("A cat saw a dog.", "Where is {0}?")
    documents = [write([random_pieces(rng, sentences)]) for write in WRITERS.values()]
    content = documents[list(WRITERS).index(kind)]
    if rng.random() < 0.8:
        content = mutate_bytes(content, rng, documents)[:20_000]
    (folder / "document").write_bytes(content)
    command = ("translate-document", corpus.run, folder / "document", "--beam=1", "--format", kind.split()[0])
    code, _, _ = run_command(folder, *command, "--out", folder / "out")
    if (code == 0) != (folder / "out").is_file():
        raise FindingError(f"{kind}: code {code}, and the output {'exists' if code else 'is missing'}")
    if code == 0 and not (folder / "out").stat().st_size:
        raise FindingError(f"{kind}: the output is empty")


def try_options(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Runs `translate` with unusual values of options."""
    names = ("beam", "n-best", "length-penalty", "temperature", "top-k", "top-p", "seed")
    names += ("threads", "device", "precision", "prefix", "out", "glossary", "no-repeat-ngram")
    values = ["nan", "inf", "-1", "0", "1", "3", "0.5", "1e999", "9" * 10, "9" * 19, "9" * 40, "٣", "", "x", "x" * 300]
    values += ["cpu:7", "cuda:99", "/", "/dev/full", str(folder / "nowhere/x"), str(folder), "\udcff"]
    options = [f"--{name}={rng.choice(values)}" for name in rng.sample(names, rng.randint(1, 2))]
    sampling = rng.choice(([], ["--top-k", "5"], ["--greedy"], ["--scores"]))
    os.chdir(folder)
    run_command(folder, "translate", corpus.run, *options, *sampling, stdin=b"a cat\n\nthe dog\n")


def try_terms(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a glossary and a calibration: every line is translated, or the damage is named."""
    run = shutil.copytree(corpus.run, folder / "run")
    sides = [text.decode().split() for text in corpus.texts[:2]]
    glossary = "".join(f"{rng.choice(sides[0])}\t{rng.choice(sides[1])}\n" for _ in range(rng.randint(1, 30)))
    (folder / "terms.tsv").write_bytes(mutate_bytes(glossary.encode(), rng, corpus.texts)[:5_000])
    text = b"\n".join(corpus.texts[0].split(b"\n")[: rng.randint(1, 6)])
    code, out, _ = run_command(folder, "translate", run, "--glossary", folder / "terms.tsv", "--beam=2", stdin=text)
    lines = text.count(b"\n") + 1
    if code == 0 and out.count(b"\n") != lines:
        raise FindingError(f"{lines} lines gave {len(out.splitlines())} with a glossary")
    run_command(folder, "calibrate", run, "--test", "spare", "--out", folder / rng.choice(("c.html", "c.x")))
    (run / "confidence.json").write_bytes(mutate_bytes(CALIBRATION, rng, corpus.texts))
    code, out, _ = run_command(folder, "translate", run, "--confidence", "--json", "--greedy", stdin=text)
    if code == 0 and out.count(b"\n") != lines:
        raise FindingError(f"{lines} lines gave {len(out.splitlines())} with confidence")


def try_serve(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages what a server reads; its port is taken, so that it must end with a message."""
    run = shutil.copytree(corpus.run, folder / "run")
    if rng.random() < 0.5:
        damaged = rng.choice(sorted(path for path in run.glob("*") if path.is_file()))
        damaged.write_bytes(mutate_bytes(damaged.read_bytes(), rng, corpus.texts))
    (folder / "keys").write_bytes(mutate_bytes(b"# ours\nfirst\nsecond\n", rng, corpus.texts))
    names = ("max-characters", "max-document-characters", "max-texts", "requests-per-minute", "max-waiting", "timeout")
    names += ("trusted-proxy", "tag", "device", "threads", "precision", "keys")
    values = [
        "nan",
        "inf",
        "-1",
        "0",
        "1",
        "1e999",
        "9" * 19,
        "9" * 40,
        "٣",
        "",
        "x",
        "/",
        "cpu:7",
        "\udcff",
        str(folder),
    ]
    options = [f"--{name}={rng.choice(values)}" for name in rng.sample(names, rng.randint(0, 2))]
    runs = [
        f"{name}{rng.choice((run, corpus.run, folder))}" for name in rng.choice((("",), ("", ""), ("en:de=",), ("x=",)))
    ]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, _ = run_command(folder, "serve", *runs, f"--keys={folder / 'keys'}", f"--port={port}", *options)
    if code != 2:
        raise FindingError(f"serve ends with code {code}, and its port is taken")


def try_report(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a run that is reported: it must be refused, or the pages come out whole."""
    run = shutil.copytree(corpus.run, folder / "run")
    damaged = rng.choice(sorted(path for path in run.glob("*") if path.is_file()))
    damaged.write_bytes(mutate_bytes(damaged.read_bytes(), rng, corpus.texts))
    options = rng.sample(
        ["--test=spare", "--test=validation", "--test=x", "--bootstrap=1", "--device=x"], rng.randint(0, 2)
    )
    pages = [folder / "page.html", folder / rng.choice(("page.md", "nowhere/page.md", "page.html"))]
    runs = rng.choice(([run], [corpus.run, run], [run, run], [folder]))
    code, _, _ = run_command(
        folder, "report", *runs, f"--out={pages[0]}", f"--out={pages[1]}", "--bootstrap=10", *options
    )
    for page in pages:
        if page.exists() and not page.stat().st_size:
            raise FindingError(f"code {code}, and {page.name} is empty")
        if code == 0 and not page.exists():
            raise FindingError(f"report ends with code 0, and {page.name} is missing")


def try_pairs(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages text of which pairs are made, and the recipe of a student: each pair must have two sides."""
    text = b"\n".join(corpus.texts[0].split(b"\n")[: rng.randint(0, 8)])
    (folder / "mono").write_bytes(gzip_and_mutate(text, rng) if rng.random() < 0.2 else mutate_bytes(text, rng, [text]))
    pairs, made = folder / "pairs.tsv", ["--greedy", "--pairs=forward", f"--shard-lines={rng.choice((1, 3, 2000))}"]
    code, _, _ = run_command(folder, "translate-corpus", corpus.run, folder / "mono", "--out", pairs, *made)
    if pairs.exists() and any(line.count(b"\t") != 1 for line in pairs.read_bytes().split(b"\n")[:-1]):
        raise FindingError(f"translate-corpus ends with code {code}, and a pair has not two sides")
    changes = {"subwords.size": 300, "model.d_model": 16, "training.steps": 1, "training.batch_tokens": 512}
    changes[rng.choice(list(changes))] = rng.choice(VALUES)
    student = [f"--set={key}={json.dumps(value)}" for key, value in changes.items()]
    student += rng.choice(([], ["--preset=tiny"], ["--preset=x"], ["--to=xx"], [f"--pairs={folder}"]))
    run_command(
        folder, "distil", corpus.run, f"--source={folder / 'mono'}", f"--out={folder / 'student'}", *made, *student
    )


def try_trial(rng: random.Random, corpus: Corpus, folder: Path) -> None:
    """Damages a recipe whose training is only tried: no run may be left."""
    recipe = write_tsv_recipe(corpus, folder, corpus.texts[2])
    (folder / "recipe.yaml").write_bytes(recipe if rng.random() < 0.2 else mutate_bytes(recipe, rng, corpus.recipes))
    if rng.random() < 0.2:
        run_command(folder, "train", folder / "recipe.yaml", "--out", folder / "out", "--dry-run")
        if (folder / "out").exists():
            raise FindingError("train --dry-run leaves a run")
    else:
        minutes = [f"--minutes={rng.choice(('0.1', '0', '-1', 'x', '1e9', 'nan', 'inf'))}"]
        code, out, _ = run_command(folder, "suggest", folder / "recipe.yaml", *minutes)
        if code == 0 and b"training:" not in out:
            raise FindingError("suggest ends with code 0 and writes no recipe")


TRIES: list[Try] = [try_recipe, try_change, try_corpus, try_inspect, try_subwords]
TRIES += [try_model, try_contents, try_store, try_text, try_options, try_terms, try_document, try_serve]
TRIES += [try_report, try_pairs, try_trial]


def make_inputs(folder: Path) -> Corpus:
    """Returns the inputs: text of the embedded corpus, recipes, and a model trained for seconds."""
    preload()
    pairs = [(pair.source, pair.target) for pair in list(split("test"))[:150]]
    sides = ["".join(f"{pair[side]}\n" for pair in pairs).encode() for side in (0, 1)]
    both = "".join(f"{source}\t{target}\n" for source, target in pairs).encode()
    examples = sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))
    recipes = [RECIPE.replace("steps: 400", "steps: 40").encode(), *(path.read_bytes() for path in examples)]
    corpus = Corpus(folder, folder / "run", recipes, [*sides, both])
    recipe = write_tsv_recipe(corpus, folder, both).replace(
        b"pairs.tsv}}", b"pairs.tsv}, test: {spare: {tsv: pairs.tsv}}, checks: {overlap: keep}}"
    )
    (folder / "recipe.yaml").write_bytes(recipe)
    run_command(folder, "train", folder / "recipe.yaml", "--out", corpus.run, "--device", "cpu")
    return corpus


def run_tries(corpus: Corpus, seed: int, deadline: float, only: int | None) -> Iterator[tuple[str, str | None]]:
    """Yields the name of each try and its finding, or None, until the deadline."""
    number = only or 0
    while time.monotonic() < deadline:
        rng = random.Random(f"{seed} {number}")
        attempt = rng.choice(TRIES)
        with tempfile.TemporaryDirectory(dir=corpus.folder) as name:
            try:
                attempt(rng, corpus, Path(name))
                finding = None
            except FindingError as error:
                finding = f"seed {seed}, try {number}, {attempt.__name__}: {error}"
            os.chdir(corpus.folder)
        yield attempt.__name__, finding
        if only is not None:
            return
        number += 1


def main() -> None:
    """Runs tries until the time is over, and prints findings and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one try")
    arguments = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    findings = 0
    with tempfile.TemporaryDirectory() as name:
        corpus = make_inputs(Path(name))
        for kind, finding in run_tries(corpus, arguments.seed, time.monotonic() + arguments.seconds, arguments.only):
            counts[kind.removeprefix("try_")] += 1
            if finding:
                findings += 1
                print(finding, flush=True)
    tried = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    print(f"{sum(counts.values()):,} tries ({tried}), {findings} findings (seed {arguments.seed})", flush=True)
    raise SystemExit(findings > 0)


if __name__ == "__main__":
    main()
