"""Real inputs, damaged at random, given to the real verbs: `python fuzz.py --seconds 600 --seed 1`.

Recipes, changes, corpora, subword files, model directories, stores, texts and options are flipped, cut, spliced and
swapped. A verb has to end, in good time and little memory, with code 0, or with code 2 and a message; and where it ends
with 0 nothing may be lost: as many lines come out as went in, every pair is kept or counted, what was damaged after
it was written is refused or made anew. Anything else is a finding; `--only N` repeats try N of a seed.
"""

import argparse
import collections
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from dirt import VALUES, WORDS, FindingError, damaged, gzipped, ran, replaced
from small_run import RECIPE

from transduce.corpus import Files, Planner, Position, Tsv, open_store, readers
from transduce.embedded import split
from transduce.model_directory import MANIFEST
from transduce.storage.checksums import checksum_of
from transduce.text.subwords import END, Subwords


class Corpus(NamedTuple):
    """What every try damages a copy of."""

    folder: Path
    run: Path
    recipes: list[bytes]
    texts: list[bytes]  # source, target, both with a tab between


Try = Callable[[random.Random, Corpus, Path], None]


def try_recipe(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """A recipe, damaged as text or as values."""
    recipe = drawn.choice(corpus.recipes)
    if drawn.random() < 0.5:
        content = damaged(recipe, drawn, corpus.recipes)
    else:
        content = json.dumps(replaced(json.loads((corpus.run / "recipe.yaml").read_text()), drawn)).encode()
    (folder / "recipe.yaml").write_bytes(content)
    ran(folder, "info", folder / "recipe.yaml", *drawn.choice(([], ["--json"])))


def try_change(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """A `--set`."""
    keys = ["training.steps", "model", "model.mixer.heads", "subwords.size", "data.train", "data", "x..y", ""]
    key = drawn.choice(keys)
    value = drawn.choice((json.dumps(drawn.choice(VALUES)).encode(), drawn.choice(WORDS)))
    change = os.fsdecode(damaged(key.encode() + b"=" + value, drawn, list(WORDS)).replace(b"\0", b""))
    (folder / "recipe.yaml").write_bytes(written(corpus, folder, corpus.texts[2]))
    ran(folder, "prepare", folder / "recipe.yaml", "--out", folder / "out", f"--set={change}")


def written(corpus: Corpus, folder: Path, text: bytes) -> bytes:
    """A recipe of a corpus with tabs, which is written beside it."""
    (folder / "pairs.tsv").write_bytes(text)
    return corpus.recipes[0].replace(b"{embedded: train}", b"{tsv: pairs.tsv}")


def try_corpus(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """Training text, plain or gzipped, in one file or two: every pair is kept or counted, and used once an epoch."""
    source, target, both = corpus.texts
    broken = damaged(drawn.choice((both, source)), drawn, corpus.texts)
    recipe = written(corpus, folder, gzipped(both, drawn) if drawn.random() < 0.2 else broken)
    spec: Tsv | Files = Tsv(tsv=str(folder / "pairs.tsv"))
    if drawn.random() < 0.5:
        sides = [source, target]
        sides[drawn.randrange(2)] = damaged(drawn.choice(sides), drawn, corpus.texts)
        for name, content in zip("st", sides, strict=True):
            (folder / name).write_bytes(content)
        recipe = recipe.replace(b"{tsv: pairs.tsv}", b"{source: s, target: t}")
        spec = Files(source=str(folder / "s"), target=str(folder / "t"))
    (folder / "recipe.yaml").write_bytes(recipe)
    code, _, _ = ran(folder, "prepare", folder / "recipe.yaml", "--out", folder / "out")
    if code == 0:
        check_store(spec, folder / "out" / "training" / "store")


def check_store(spec: Tsv | Files, place: Path) -> None:
    """A `FindingError` where a pair is neither in the store nor counted, or is not used once an epoch."""
    prepared = open_store(place)
    report, store = prepared.report, prepared.train
    dropped = sum(count for fault, count in report.faults.items() if fault.value.startswith("dropped"))
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


def try_subwords(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """A subword file: refused, or without loss."""
    content = (corpus.run / "tokenizer.json").read_bytes()
    if drawn.random() < 0.5:
        content = json.dumps(replaced(json.loads(content), drawn)).encode()
    else:
        content = damaged(content, drawn, [content, *corpus.recipes])
    run = shutil.copytree(corpus.run, folder / "run", ignore=shutil.ignore_patterns("training"))
    reseal(run, "tokenizer.json", content)
    lines = [line for line in corpus.texts[drawn.randrange(2)].decode().split("\n") if line][:3]
    code, out, _ = ran(folder, "translate", run, given="\n".join(lines).encode())
    if code == 0:
        subwords = Subwords.parse(content, place="the damaged file")
        if out.count(b"\n") != len(lines) or subwords.decode(subwords.encode(lines)) != lines:
            raise FindingError("accepted, and loses text")


def reseal(run: Path, name: str, content: bytes) -> None:
    """Writes a file of a model directory, and the manifest as if it had always been so."""
    (run / name).write_bytes(content)
    manifest = json.loads((run / MANIFEST).read_text())
    manifest["files"][name] = checksum_of(content)
    (run / MANIFEST).write_text(json.dumps(manifest))


def try_model(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """A model directory with a file damaged, swapped, missing or no file: refused by that file's name."""
    run = shutil.copytree(corpus.run, folder / "run", ignore=shutil.ignore_patterns("training"))
    names = ["config.json", "model.safetensors", "recipe.yaml", "tokenizer.json"]
    path = run / drawn.choice([*names, MANIFEST])
    content = path.read_bytes()
    path.unlink()
    match drawn.randrange(9):
        case 0:
            pass
        case 1:
            path.mkdir()
        case 2:
            os.mkfifo(path)
        case 3:
            path.symlink_to(drawn.choice((path.name, "nowhere", "/dev/zero", "/dev/null", ".")))
        case 4:
            path.write_bytes((run / drawn.choice([name for name in names if name != path.name])).read_bytes())
        case _:
            path.write_bytes(damaged(content, drawn, [content]))
    whole = path.is_file() and path.read_bytes() == content
    for verb in (["verify", run], ["translate", run], ["info", run])[: 2 if path.name != "config.json" else 3]:
        code, _, said = ran(folder, *verb, given=b"a cat\n")
        if code == 0 and not whole and not (path.name == MANIFEST and same(path.read_bytes(), content)):
            raise FindingError(f"{verb[0]} accepts a damaged {path.name}")
        if code == 2 and (whole or path.name not in said) and path.name != MANIFEST:  # which may blame any file
            raise FindingError(f"{verb[0]} does not name {path.name}: {said}")


def same(one: bytes, other: bytes) -> bool:
    """Whether two manifests say the same of every file."""
    return bool(json.loads(one)["files"] == json.loads(other)["files"])


def try_contents(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """A model directory whose manifest fits, and whose configuration or weights are odd."""
    run = shutil.copytree(corpus.run, folder / "run", ignore=shutil.ignore_patterns("training"))
    name = drawn.choice(("config.json", "config.json", "model.safetensors", "recipe.yaml", MANIFEST))
    content = (run / name).read_bytes()
    if name == "model.safetensors" or drawn.random() < 0.3:
        content = damaged(content, drawn, [content])
    else:
        content = json.dumps(replaced(json.loads(content), drawn)).encode()
    if name == MANIFEST:
        (run / name).write_bytes(content)
    else:
        reseal(run, name, content)
    code, out, _ = ran(folder, "translate", run, given=b"a cat\n\nthe dog\n")
    if code == 0 and out.count(b"\n") != 3:
        raise FindingError(f"three lines gave {out!r}")
    ran(folder, "evaluate", run, "--test", drawn.choice(("spare", "x")))
    ran(folder, "info", run)


def try_store(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """A prepared store, damaged: it is made again as it was."""
    (folder / "recipe.yaml").write_bytes(written(corpus, folder, corpus.texts[2]))
    command = ("prepare", folder / "recipe.yaml", "--out", folder / "out")
    ran(folder, *command)
    store = folder / "out" / "training" / "store"
    before = contents(store)
    name = drawn.choice(list(before))
    if drawn.random() < 0.8:
        content = (store / name).read_bytes()
        (store / name).write_bytes(damaged(content, drawn, corpus.recipes))
    else:
        (store / name).unlink()
    code, _, said = ran(folder, *command)
    if code or contents(store) != before:
        raise FindingError(f"{name} was damaged, and the store is not made again: {said}")


def contents(store: Path) -> dict[str, object]:
    """What a store holds; the spaces of its description say nothing."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in store.iterdir()}
    return found | {"store.json": json.loads((store / "store.json").read_bytes())}


def try_text(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """Dirty text to translate, score and measure: as many lines come out as went in."""
    text = damaged(b"\n".join(corpus.texts[0].split(b"\n")[: drawn.randint(0, 6)]), drawn, corpus.texts[:2])[:20_000]
    lines = text.count(b"\n") + (not text.endswith(b"\n") and bool(text.removeprefix(b"\xef\xbb\xbf")))
    form = drawn.choice(([], ["--scores"], ["--json"], ["--greedy"], ["--sample", "--seed", "3"], ["--alignments"]))
    code, out, said = ran(folder, "translate", corpus.run, "--beam=2", *form, given=text)
    if code == 0 and out.count(b"\n") != lines:
        raise FindingError(f"{lines} lines gave {len(out.splitlines())} with {form}")
    if code == 2 and "UTF-8" not in said and "markup" not in said and "subwords" not in said:
        raise FindingError(f"text refused: {said}")
    (folder / "text").write_bytes(text)
    (folder / "other").write_bytes(damaged(text, drawn, corpus.texts) if drawn.random() < 0.5 else text)
    code, out, _ = ran(
        folder, "score", corpus.run, "--source", folder / "text", "--target", "-", given=(folder / "other").read_bytes()
    )
    if code == 0 and out.count(b"\n") != lines:
        raise FindingError(f"{lines} lines gave {len(out.splitlines())} scores")
    metrics = drawn.choice(("bleu", "chrf,ter"))
    ran(folder, "measure", "--reference", folder / "text", folder / "other", "--metric", metrics)
    ran(folder, "evaluate", corpus.run, "--source", folder / "text", "--reference", folder / "other")


def try_options(drawn: random.Random, corpus: Corpus, folder: Path) -> None:
    """Odd values of options."""
    names = ("beam", "n-best", "length-penalty", "margin", "temperature", "top-k", "top-p", "seed", "batch-tokens")
    names += ("threads", "device", "precision", "prefix", "out")
    values = ["nan", "inf", "-1", "0", "1", "3", "0.5", "1e999", "9" * 10, "9" * 19, "9" * 40, "٣", "", "x", "x" * 300]
    values += ["cpu:7", "cuda:99", "/", "/dev/full", str(folder / "nowhere/x"), str(folder), "\udcff"]
    options = [f"--{name}={drawn.choice(values)}" for name in drawn.sample(names, drawn.randint(1, 2))]
    sampling = drawn.choice(([], ["--sample"], ["--greedy"], ["--scores"]))
    os.chdir(folder)
    ran(folder, "translate", corpus.run, *options, *sampling, given=b"a cat\n\nthe dog\n")


TRIES: list[Try] = [try_recipe, try_change, try_corpus, try_subwords]
TRIES += [try_model, try_contents, try_store, try_text, try_options]


def made(folder: Path) -> Corpus:
    """The inputs: text of the embedded corpus, recipes, and a model of seconds."""
    pairs = [(pair.source, pair.target) for pair in list(split("test"))[:150]]
    sides = ["".join(f"{pair[side]}\n" for pair in pairs).encode() for side in (0, 1)]
    both = "".join(f"{source}\t{target}\n" for source, target in pairs).encode()
    shown = sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))
    recipes = [RECIPE.replace("steps: 400", "steps: 40").encode(), *(path.read_bytes() for path in shown)]
    corpus = Corpus(folder, folder / "run", recipes, [*sides, both])
    recipe = written(corpus, folder, both).replace(b"pairs.tsv}}", b"pairs.tsv}, test: {spare: {tsv: pairs.tsv}}}")
    (folder / "recipe.yaml").write_bytes(recipe)
    ran(folder, "train", folder / "recipe.yaml", "--out", corpus.run, "--device", "cpu")
    return corpus


def tries(corpus: Corpus, seed: int, until: float, only: int | None) -> Iterator[tuple[str, str | None]]:
    """The name of each try, and what was found, until the time is over."""
    number = only or 0
    while time.monotonic() < until:
        drawn = random.Random(f"{seed} {number}")
        attempt = drawn.choice(TRIES)
        with tempfile.TemporaryDirectory(dir=corpus.folder) as name:
            try:
                attempt(drawn, corpus, Path(name))
                found = None
            except FindingError as finding:
                found = f"seed {seed}, try {number}, {attempt.__name__}: {finding}"
            os.chdir(corpus.folder)
        yield attempt.__name__, found
        if only is not None:
            return
        number += 1


def main() -> None:
    """Damages, runs, and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one try")
    asked = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    findings = 0
    with tempfile.TemporaryDirectory() as name:
        corpus = made(Path(name))
        for kind, found in tries(corpus, asked.seed, time.monotonic() + asked.seconds, asked.only):
            counts[kind.removeprefix("try_")] += 1
            if found:
                findings += 1
                print(found, flush=True)
    tried = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    print(f"{sum(counts.values()):,} tries ({tried}), {findings} findings (seed {asked.seed})", flush=True)
    raise SystemExit(findings > 0)


if __name__ == "__main__":
    main()
