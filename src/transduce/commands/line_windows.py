"""Input and output of commands that process text line by line.

A text is processed in windows of lines, so that the first translations are written before the last are computed.
"""

import contextlib
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.commands.console import say
from transduce.commands.input_checks import check_exist
from transduce.commands.output_file import open_output
from transduce.runtime.progress import Progress, is_terminal, track

if TYPE_CHECKING:
    from transduce.translation.glossary_translator import GlossaryTranslator
    from transduce.translation.results import Translation


def runs_and_text(paths: list[Path]) -> tuple[list[Path], Path | None]:
    """Splits the paths of a command line into model directories and the text; None stands for standard input.

    The last of several paths is the text unless it is a directory. Raises OSError if the text does not exist, and
    ValueError if the paths are in the wrong order, if there are several texts, or if the missing text looks like a
    sentence.
    """
    from transduce.model_directory.manifest import CONFIG, MANIFEST

    last = paths[-1]
    is_model = all((last / name).exists() for name in (CONFIG, MANIFEST))
    if len(paths) > 1 and last.is_dir() and not is_model and not (last / "training").exists():
        raise ValueError(
            f"{last} is a folder without a model: name a file of text (`transduce translate-corpus` takes folders)"
        )
    if len(paths) == 1 or last.is_dir():
        if paths[0].is_file() and len(paths) > 1:
            raise ValueError(f"{paths[0]} is a file: name the model first, then the text: `{last} {paths[0]}`")
        return paths, None
    if not last.exists() and " " in last.name:
        raise ValueError(
            f'{last}: there is no such file; pipe a text into the command: echo "{last}" | transduce translate RUN'
        )
    check_exist(last)
    if len(paths) > 2 and paths[-2].is_file():
        raise ValueError(f"{paths[-2]} {last}: name one text; `cat` joins several")
    return paths[:-1], last


def read_windows(text: Path | None, prefix: Path | None = None) -> tuple[Iterable[list[str]], list[str] | None]:
    """Returns the text as windows of lines, and the prefixes of the translations if `prefix` names a file.

    The windows are translated and written one after another. From a pipe or a terminal, a window contains the lines
    that have arrived so far. With prefixes, the whole text is a single window; raises ValueError if there are not as
    many prefixes as lines.
    """
    from transduce.text.lines import LineStream, read_lines, read_texts
    from transduce.translation.translator import LOOKAHEAD

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
    """Yields the windows of a stream, and then prints a line break after the last prompt."""
    yield from stream
    _prompt("\n")


def _prompt(text: str) -> None:
    """Prints a prompt on standard error if standard input and standard error are terminals."""
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        print(text, end="", file=sys.stderr, flush=True)


def text_progress(windows: Iterable[list[str]], out: Path | None) -> AbstractContextManager[Progress]:
    """Returns a context manager that yields a Progress for the finished lines of a text.

    Nothing is displayed if the text is a stream or has only one window, or if the translations appear on a terminal.
    """
    total = sum(map(len, windows)) if isinstance(windows, list) and len(windows) > 1 else None
    if total is None or (out is None and is_terminal(sys.stdout)):
        return contextlib.nullcontext(Progress("text"))
    return track("text", total)


def translate_windows(
    translate_lines: "Callable[..., list[list[Translation]]]",
    format_lines: "Callable[[list[str], list[list[Translation]], int], list[str]]",
    windows: Iterable[list[str]],
    prefixes: list[str] | None,
    out: Path | None,
    terms: "GlossaryTranslator | None",
    *,
    splits: bool = False,
) -> None:
    """Translates and writes one window of lines after another.

    At the end, prints how many glossary terms the translations contain, and warns about suspicious lines. These are
    lines whose translation repeats itself, and lines that seem to contain several sentences. With `splits`,
    `translate_lines` splits the latter itself, so that no warning is needed.
    """
    from transduce.text.repetition import is_loop
    from transduce.text.sentence_ends import has_several_sentences, several_sentences_in

    lines_before, suspects, loops = 0, list[int](), list[int]()
    with open_output(out) as write, text_progress(windows, out) as progress:
        for lines in windows:
            translations = translate_lines(lines, prefixes=prefixes, lines_before=lines_before)
            write("".join(f"{line}\n" for line in format_lines(lines, translations, lines_before)))
            suspects += [number for number, line in enumerate(lines, lines_before + 1) if has_several_sentences(line)]
            numbered = enumerate(zip(lines, translations, strict=True), lines_before + 1)
            loops += [number for number, (line, best) in numbered if is_loop(best[0].text, line)]
            lines_before += len(lines)
            progress.update(lines_before)
    if terms:
        say(terms.summary)
    if suspects and not splits:
        say(
            f"{several_sentences_in(suspects, 'line')}; "
            "a line is translated as one sentence (`transduce translate-document` splits them)"
        )
    if loops:
        say_loops(len(loops), f" (the first: line {loops[0]:,})")


def say_loops(count: int, place: str = "") -> None:
    """Prints how many translations repeat themselves, and how to avoid it; prints nothing if there are none."""
    if count:
        subject = "1 translation repeats" if count == 1 else f"{count:,} translations repeat"
        say(f"{subject} the same text again and again{place}; --no-repeat-ngram 4 breaks such loops")
