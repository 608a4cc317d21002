"""Translation shard by shard, which `translate --engine`, `augment` and `distil` share."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.commands.options import Engine, refuse_options
from transduce.commands.output import check_name, lock_output

if TYPE_CHECKING:
    from transduce.bulk.finished_shards import PairFilter
    from transduce.bulk.job import TranslationJob

SHARD_LINES = 2000


def translate_in_bulk(
    job: "TranslationJob",
    text: Path | None,
    out: Path | None,
    engine: Engine,
    *,
    shard_lines: int | None,
    actors: int | None,
    prefix: Path | None = None,
    pairs: "PairFilter | None" = None,
) -> None:
    """Translates shard by shard, or resumes a stopped bulk translation."""
    from transduce.bulk.job import translate_locally
    from transduce.bulk.ray_engine import translate_on_ray
    from transduce.bulk.shards import cut_texts
    from transduce.bulk.translate_shards import translate_texts
    from transduce.runtime.signals import raise_on_signals

    assert text is not None
    if out is None:
        raise ValueError("--engine saves finished shards beside the output: name the output with --out")
    check_out(out)
    if engine is Engine.LOCAL:
        refuse_options({"--actors": actors}, "is for --engine ray")
    out = out.resolve()  # the target of a link is written, the link stays
    with raise_on_signals():
        texts = cut_texts(text, out, prefix, shard_lines or SHARD_LINES)
        for translated in texts:
            check_name(translated.out)
        if not text.is_dir():
            lock_output(out)
        on_ray = functools.partial(translate_on_ray, actors=actors)
        translate_texts(job, texts, out, translate_locally if engine is Engine.LOCAL else on_ray, pairs)


def make_pairs(
    job: "TranslationJob",
    text: Path,
    out: Path,
    engine: Engine,
    *,
    shard_lines: int | None,
    actors: int | None,
) -> None:
    """Translates `text`, which may be compressed, and writes pairs to `out`, or resumes; see `PairFilter`."""
    from transduce.bulk.finished_shards import PairFilter
    from transduce.bulk.shards import plain_text
    from transduce.model_directory.model import Model
    from transduce.translation.source_request import choose_tags

    if not engine.is_bulk:
        raise ValueError(f"--engine {engine.value} does not translate shard by shard: leave it out")
    if text.is_dir():
        raise ValueError(f"{text} is a folder: name one file of text; `cat` joins several")
    check_out(out)
    out = out.resolve()
    check_name(out)
    for run in map(Path, job.runs):
        model = Model.read(run)
        choose_tags(model.config, model.source, job.request)  # raises ValueError for what the model cannot do
    with plain_text(text, out.with_name(f"{out.name}.bulk") / "unpacked") as plain:
        translate_in_bulk(job, plain, out, engine, shard_lines=shard_lines, actors=actors, pairs=PairFilter())


def check_out(out: Path) -> None:
    """Raises ValueError where `out` has no name, beside which the folder of finished shards could lie."""
    if out.name in ("", ".."):
        raise ValueError(f"--out {out}: name the file or the folder itself, such as translated/")
