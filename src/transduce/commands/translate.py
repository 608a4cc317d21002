"""`transduce translate`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.options import Products

if TYPE_CHECKING:
    from transduce.translator import Translation, Translator


def translate(
    run: Annotated[list[Path], typer.Argument(metavar="RUN... [FILE]", help="Model directories, then a file.")],
    out: Annotated[Path | None, typer.Option(help="Write here instead of standard output.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Width of the beam; the model's own if not given.")] = None,
    length_penalty: Annotated[float | None, typer.Option(min=0, help="α of the length penalty.")] = None,
    margin: Annotated[float | None, typer.Option(help="Drop hypotheses so many nats behind: faster, a bet.")] = None,
    greedy: Annotated[bool, typer.Option(help="The most probable word at each step.")] = False,
    n_best: Annotated[int, typer.Option(min=1, help="Translations a line, as TSV.")] = 1,
    scores: Annotated[bool, typer.Option(help="TSV: line, text, log-probability, penalised score.")] = False,
    alignments: Annotated[bool, typer.Option(help="TSV: text, then source-target pairs of words.")] = False,
    sample: Annotated[bool, typer.Option(help="Draw from the model's distribution.")] = False,
    temperature: Annotated[float, typer.Option(help="Sharpness of the draw; lower is sharper.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k most probable words.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the most probable words of this mass.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the draw.")] = 1,
    prefix: Annotated[Path | None, typer.Option(help="A file with what each translation must begin with.")] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source positions translated at once.")] = 4096,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
    precision: Annotated[
        Products, typer.Option(help="Of products: int8 is fast on a CPU, bfloat16 on a GPU.")
    ] = Products.FLOAT32,
) -> None:
    """Translates lines; one line in is one line out, and an empty line stays empty."""
    from transduce.machine import choose_device, keep_pages, use_threads
    from transduce.measure import read_lines
    from transduce.search import Decoding, Sampling
    from transduce.settings import merged, validated
    from transduce.translator import Method, Translator

    runs, path = _runs_and_file(run)
    use_threads(threads)
    keep_pages()
    translator = Translator.load(*runs, device=str(choose_device(device)), precision=precision.value)
    lines = read_lines(path)
    prefixes = read_lines(str(prefix)) if prefix else None
    if prefixes is not None and len(prefixes) != len(lines):
        raise ValueError(f"{prefix} has {len(prefixes)} lines, the text has {len(lines)}: one prefix a line, or none")
    asked = {"beam": beam, "length_penalty": length_penalty, "margin": margin}
    changes = {key: value for key, value in asked.items() if value is not None}
    decoding = validated(Decoding, merged(translator.decoding.as_dictionary(), changes), place="options")
    if n_best > decoding.beam:
        raise ValueError(f"--n-best {n_best}: a beam of {decoding.beam} gives at most as many; use --beam {n_best}")
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    method = Method(decoding, n_best, greedy, validated(Sampling, sampling, place="options") if sample else None, seed)
    found = translator.translate(lines, method, prefixes=prefixes, batch_tokens=batch_tokens)
    shown = _shown(translator, lines, found, scores=scores or n_best > 1, alignments=alignments, as_json=as_json)
    _write("".join(f"{line}\n" for line in shown), out)


def _runs_and_file(paths: list[Path]) -> tuple[list[Path], str]:
    """The model directories, and the text: the last path where it is no directory, else standard input."""
    if len(paths) > 1 and not paths[-1].is_dir():
        return paths[:-1], str(paths[-1])
    return paths, "-"


def _shown(
    translator: "Translator",
    lines: list[str],
    found: list[list["Translation"]],
    *,
    scores: bool,
    alignments: bool,
    as_json: bool,
) -> list[str]:
    """The lines to print, in the form that was asked for."""
    from transduce.alignment import aligned_words

    def cell(text: str) -> str:
        return text.replace("\t", " ")

    def pairs(line: str, text: str) -> str:
        found = aligned_words(translator.explain(line, text)) if text else []
        return " ".join(f"{source}-{target}" for source, target in found)

    shown = []
    for number, (line, best) in enumerate(zip(lines, found, strict=True), start=1):
        if as_json:
            record = [{"text": one.text, "log_probability": one.log_probability, "score": one.score} for one in best]
            aligned = {"alignment": pairs(line, best[0].text)} if alignments else {}
            shown.append(json.dumps({"line": number, "translations": record, **aligned}, ensure_ascii=False))
        elif scores:
            shown += [f"{number}\t{cell(one.text)}\t{one.log_probability:.6f}\t{one.score:.6f}" for one in best]
        elif alignments:
            shown.append(f"{cell(best[0].text)}\t{pairs(line, best[0].text)}")
        else:
            shown.append(best[0].text)
    return shown


def _write(text: str, out: Path | None) -> None:
    """To the file, or to standard output."""
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, "utf-8")
