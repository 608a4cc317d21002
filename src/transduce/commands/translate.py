"""`transduce translate`."""

import contextlib
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.console import say
from transduce.commands.options import (
    Engine,
    MarginOption,
    OverwriteOption,
    PrecisionOption,
    decoding_settings,
    refuse_options,
)
from transduce.commands.output import check_no_partial, check_writable, open_output
from transduce.runtime.progress import Progress, track

if TYPE_CHECKING:
    from transduce.bulk.job import TranslationJob
    from transduce.search import Decoding
    from transduce.translation.output_format import OutputFormat
    from transduce.translation.results import Translation
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.translator import Translator

SHARD_LINES = 2000


def translate(
    run: Annotated[list[Path], typer.Argument(metavar="RUN... [TEXT]", help="Model directories, then a file.")],
    out: Annotated[Path | None, typer.Option(help="Write here instead of standard output.")] = None,
    overwrite: OverwriteOption = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Width of the beam; the model's own if not given.")] = None,
    length_penalty: Annotated[float | None, typer.Option(min=0, help="α of the length penalty.")] = None,
    margin: MarginOption = None,
    greedy: Annotated[bool, typer.Option(help="The most probable word at each step.")] = False,
    n_best: Annotated[int, typer.Option(min=1, help="At most so many translations a line, as TSV.")] = 1,
    scores: Annotated[bool, typer.Option(help="TSV: line, text, log-probability, the score it was chosen by.")] = False,
    alignments: Annotated[
        bool, typer.Option(help="TSV: text, then source-target pairs of words, by the first run.")
    ] = False,
    sample: Annotated[bool, typer.Option(help="Draw from the model's distribution.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the draw, 1 if not given; lower is sharper.")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k most probable words.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the most probable words of this mass.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Of the draw, 1 if not given.")] = None,
    prefix: Annotated[Path | None, typer.Option(help="A file with what each translation must begin with.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Most source positions translated at once.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
    precision: Annotated[
        PrecisionOption, typer.Option(help="Of products: int8 is fast on a CPU, bfloat16 on a GPU.")
    ] = PrecisionOption.FLOAT32,
    engine: Annotated[
        Engine | None, typer.Option(help="In bulk: a file or a folder, shard by shard, in one process or many.")
    ] = None,
    shard_lines: Annotated[
        int | None, typer.Option(min=1, help=f"Lines a shard, with --engine; {SHARD_LINES} if not given.")
    ] = None,
    actors: Annotated[int | None, typer.Option(min=1, help="Models at work at once, with --engine ray.")] = None,
) -> None:
    """Translates lines; one line in is one line out, and an empty line stays empty."""
    from transduce.translation.line_translator import BATCH_TOKENS
    from transduce.translation.output_format import OutputFormat

    runs, text = _runs_and_text(run, engine)
    decoding = decoding_settings(runs[0], {"beam": beam, "length_penalty": length_penalty, "margin": margin})
    if greedy or sample:
        refuse_options({"--beam": beam, "--length-penalty": length_penalty, "--margin": margin}, "is for a beam search")
    if not sample:
        refuse_options(
            {"--temperature": temperature, "--top-k": top_k, "--top-p": top_p, "--seed": seed}, "is for --sample"
        )
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    method = _method(decoding, n_best, greedy, drawn if sample else None, seed)
    if alignments and (scores or n_best > 1) and not as_json:
        raise ValueError("--alignments: it is a table of its own beside that of --scores and --n-best; add --json")
    form = OutputFormat(scores=scores or n_best > 1, alignments=alignments, json=as_json)
    batch_tokens = batch_tokens or BATCH_TOKENS
    if engine is None:
        refuse_options({"--shard-lines": shard_lines, "--actors": actors}, "is for --engine")
        check_writable(out, overwrite=overwrite)
        check_no_partial(out, overwrite=overwrite)
        translator = _load(runs, form, device, threads, precision)
        translate_lines = functools.partial(translator.translate_lines, method=method, batch_tokens=batch_tokens)
        windows, prefixes = _windows(text, prefix)
        _translate_windows(translator, translate_lines, form, windows, prefixes, out)
    else:
        from transduce.bulk.job import TranslationJob

        refuse_options({"--overwrite": overwrite or None}, "is not for --engine")
        job = TranslationJob.of(runs, method, form, precision.value, batch_tokens, device, threads)
        _in_bulk(job, text, prefix, out, engine, shard_lines or SHARD_LINES, actors)


def _runs_and_text(paths: list[Path], engine: Engine | None) -> tuple[list[Path], Path | None]:
    """The model directories, and the text; None for standard input.

    In bulk the last path is the text, else where it is no directory.
    """
    from transduce.model_directory import CONFIG, MANIFEST

    last = paths[-1]
    is_model = all((last / name).exists() for name in (CONFIG, MANIFEST))
    if engine is None:
        if len(paths) > 1 and last.is_dir() and not is_model and not (last / "training").exists():
            raise ValueError(f"{last} is no model; for a folder of text add --engine local and --out")
        return (paths[:-1], last) if len(paths) > 1 and not last.is_dir() else (paths, None)
    if len(paths) == 1:
        raise ValueError("--engine translates a file or a folder and no standard input: name it after the model")
    if is_model:
        raise ValueError(f"{last} is a model; with --engine the last path is the text, a file or a folder")
    return paths[:-1], last


def _method(
    decoding: "Decoding", n_best: int, greedy: bool, drawn: dict[str, Any] | None, seed: int | None
) -> "SearchMethod":
    """How to search; `drawn` is how to sample, where that was asked for."""
    from transduce.search import Sampling
    from transduce.settings import validated
    from transduce.translation.search_method import SearchMethod

    if greedy and drawn is not None:
        raise ValueError("--greedy and --sample: each is a way of its own; choose one")
    if n_best > 1 and (greedy or drawn is not None):
        raise ValueError(f"--n-best {n_best}: only a beam has several translations; leave --greedy and --sample out")
    if n_best > decoding.beam:
        raise ValueError(f"--n-best {n_best}: a beam of {decoding.beam} gives at most as many; use --beam {n_best}")
    sampling = None
    if drawn is not None:
        given = {name: value for name, value in drawn.items() if value is not None}
        sampling = validated(Sampling, given, place="options")
    return SearchMethod(decoding, n_best, greedy, sampling, 1 if seed is None else seed)


def _load(
    runs: list[Path], form: "OutputFormat", device: str, threads: int | None, precision: PrecisionOption
) -> "Translator":
    """Loads the models; raises ValueError where alignments are to be written and the first model has none."""
    from transduce.runtime.device import choose_device, keep_freed_memory, set_threads
    from transduce.translation.translator import Translator

    set_threads(threads)
    keep_freed_memory()
    translator = Translator.load(*runs, device=str(choose_device(device)), precision=precision.value)
    if form.alignments:
        translator.check_explicable()
    return translator


def _windows(text: Path | None, prefix: Path | None) -> tuple[Iterable[list[str]], list[str] | None]:
    """Returns the text in windows of lines, each translated and written at once, and the prefixes.

    A pipe or a terminal gives the lines that wait. With prefixes the whole text is one window.
    """
    from transduce.text.line_stream import LineStream
    from transduce.text.lines import read_lines, read_texts
    from transduce.translation.line_translator import LOOKAHEAD

    if prefix is not None:
        lines, prefixes = read_texts(str(text or "-"), str(prefix))
        if len(prefixes) != len(lines):
            raise ValueError(
                f"{prefix} has {len(prefixes)} lines, the text has {len(lines)}: one prefix a line, or none"
            )
        return [lines], prefixes
    is_standard_input = text is None or str(text) == "-"
    if is_standard_input and sys.stdin is not None and not stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode):
        stream = LineStream(sys.stdin.fileno(), "standard input", LOOKAHEAD, functools.partial(_prompt, "source> "))
        return _until_end(stream), None
    lines = read_lines(str(text or "-"))
    return [lines[first : first + LOOKAHEAD] for first in range(0, len(lines), LOOKAHEAD)], None


def _until_end(stream: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yields the windows of a stream; ends the line of the last prompt."""
    yield from stream
    _prompt("\n")


def _prompt(text: str) -> None:
    """Prints `text` on standard error where a person types the lines."""
    if sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty():
        print(text, end="", file=sys.stderr, flush=True)


def _translate_windows(
    translator: "Translator",
    translate_lines: "Callable[..., list[list[Translation]]]",
    form: "OutputFormat",
    windows: Iterable[list[str]],
    prefixes: list[str] | None,
    out: Path | None,
) -> None:
    """Translates and writes window after window; says at the end which lines seem to hold several sentences."""
    from transduce.text.sentences import has_several_sentences

    lines_before, several = 0, []
    with open_output(out) as write, _text_progress(windows, out) as progress:
        for lines in windows:
            translations = translate_lines(lines, prefixes=prefixes, lines_before=lines_before)
            output = form.lines(translator, lines, translations, lines_before)
            write("".join(f"{line}\n" for line in output))
            several += [number for number, line in enumerate(lines, lines_before + 1) if has_several_sentences(line)]
            lines_before += len(lines)
            progress.update(lines_before)
    if several:
        subject = "1 line seems" if len(several) == 1 else f"{len(several):,} lines seem"
        say(
            f"{subject} to hold several sentences (the first: line {several[0]:,}); "
            "a line is translated as one sentence"
        )


def _text_progress(windows: Iterable[list[str]], out: Path | None) -> AbstractContextManager[Progress]:
    """Tracks the lines of a text of several windows, unless a bar would be drawn among the lines on a terminal."""
    total = sum(map(len, windows)) if isinstance(windows, list) and len(windows) > 1 else None
    if total is None or (out is None and sys.stdout.isatty()):
        return contextlib.nullcontext(Progress("text"))
    return track("text", total)


def _in_bulk(
    job: "TranslationJob",
    text: Path | None,
    prefix: Path | None,
    out: Path | None,
    engine: Engine,
    shard_lines: int,
    actors: int | None,
) -> None:
    """Shard by shard, going on where an earlier call was stopped; what is told goes to standard error."""
    from transduce.bulk.job import translate_locally
    from transduce.bulk.ray_engine import translate_on_ray
    from transduce.bulk.shards import cut_texts
    from transduce.bulk.translate_shards import translate_texts
    from transduce.runtime.signals import raise_on_signals

    assert text is not None
    if out is None:
        raise ValueError("--engine keeps what is finished beside the output: name that with --out")
    if out.name in ("", ".."):
        raise ValueError(f"--out {out}: name the file or the folder itself, such as translated/")
    if engine is Engine.LOCAL:
        refuse_options({"--actors": actors}, "is for --engine ray")
    out = out.resolve()  # what a link leads to is written, and not the link
    with raise_on_signals():
        texts = cut_texts(text, out, prefix, shard_lines)
        work = (
            translate_locally if engine is Engine.LOCAL else functools.partial(translate_on_ray, actors=actors, say=say)
        )
        translate_texts(job, texts, out, work, say)
