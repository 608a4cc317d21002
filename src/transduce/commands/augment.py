"""`transduce augment`: makes training pairs from text in one language, with a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.bulk import SHARD_LINES, make_pairs
from transduce.commands.options import (
    BatchTokensOption,
    BeamOption,
    DeviceOption,
    Engine,
    FromOption,
    GreedyOption,
    LengthPenaltyOption,
    MarginOption,
    NoRepeatNgramOption,
    PrecisionName,
    PrecisionOption,
    SampleOption,
    SeedOption,
    TagOption,
    TemperatureOption,
    ThreadsOption,
    ToOption,
    TopKOption,
    TopPOption,
    search_method_of_options,
)


def augment(
    run: Annotated[Path, typer.Argument(help="The model that translates the text.")],
    text: Annotated[
        Path, typer.Argument(metavar="MONO", help="A file of text in its source language; may be compressed.")
    ],
    out: Annotated[Path, typer.Option(help="The file of pairs: source, tab, target of the model to train.")],
    forward: Annotated[
        bool, typer.Option(help="The text is the source of the pairs, and not the target: for distillation.")
    ] = False,
    to: ToOption = None,
    source_language: FromOption = None,
    tag: TagOption = None,
    beam: BeamOption = None,
    length_penalty: LengthPenaltyOption = None,
    margin: MarginOption = None,
    no_repeat_ngram: NoRepeatNgramOption = None,
    greedy: GreedyOption = False,
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = PrecisionName.FLOAT32,
    engine: Annotated[Engine, typer.Option(help="What translates: this process, or the actors of Ray.")] = Engine.LOCAL,
    shard_lines: Annotated[int | None, typer.Option(min=1, help=f"{SHARD_LINES} if not given.")] = None,
    actors: Annotated[int | None, typer.Option(min=1, help="Models that work at once, with --engine ray.")] = None,
) -> None:
    """Translates text into the other side of training pairs; the same command resumes a stopped one."""
    from transduce.bulk.job import TranslationJob
    from transduce.commands.translate import read_config
    from transduce.translation.output_format import OutputFormat
    from transduce.translation.source_request import SourceRequest
    from transduce.translation.translator import BATCH_TOKENS

    config = read_config(run)
    method = search_method_of_options(
        config.decoding,
        1,
        beam=beam,
        length_penalty=length_penalty,
        margin=margin,
        no_repeat_ngram=no_repeat_ngram,
        greedy=greedy,
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    job = TranslationJob.of(
        [run],
        method,
        output_format=OutputFormat(pairs="forward" if forward else "backward"),
        precision=precision.value,
        batch_tokens=batch_tokens or BATCH_TOKENS,
        device=device,
        threads=threads,
        request=SourceRequest(to, source_language, tag),
    )
    make_pairs(job, text, out, engine, shard_lines=shard_lines, actors=actors)
