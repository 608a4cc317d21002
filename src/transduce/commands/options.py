"""Options that several commands share.

Options that belong together are the fields of one dataclass, so that they have the same names, defaults and help texts
in every command. A command takes such a dataclass as a single parameter. Because typer does not support this, `spread`
turns each field into an option:

    def evaluate(run: …, search: SearchChoice, machine: MachineChoice)    # is called as
    transduce evaluate RUN --beam 5 --length-penalty 0.6 --device cpu
"""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from transduce.runtime.progress import no_progress

if TYPE_CHECKING:
    from transduce.search.beam import Decoding
    from transduce.translation.engine import TranslationPrecision
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.source_request import SourceRequest

DeviceOption = Annotated[
    str, typer.Option(metavar="DEVICE", help="Device: auto, cpu, cuda, or a particular GPU such as cuda:1.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Number of CPU threads (default: one per core).")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Overwrite existing output files.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress messages, but not notes and errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
NoRepeatNgramOption = Annotated[
    int | None, typer.Option(min=0, help="Never repeat an n-gram of N tokens in a translation; 0 allows repetition.")
]
SourceLanguageOption = Annotated[
    str | None, typer.Option("--from", help="Source language, such as en, if the model has several.")
]
GlossaryOption = Annotated[
    Path | None,
    typer.Option(help="Glossary of required translations: a TSV file with a source and a target term per line."),
]
ActorsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Number of Ray actors that translate in parallel (default: one process, without Ray)."),
]


class PrecisionName(StrEnum):
    """The precision of matrix multiplications during translation."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


class Engine(StrEnum):
    """The inference engines that can translate instead of this package's own engine."""

    CTRANSLATE2 = "ctranslate2"


EngineOption = Annotated[
    Engine | None, typer.Option(help="Translate with another inference engine, which cannot run ensembles.")
]


@dataclass(frozen=True)
class MachineChoice:
    """The device, the number of CPU threads and the precision with which a model runs."""

    device: DeviceOption = "auto"
    threads: ThreadsOption = None
    precision: Annotated[
        PrecisionName | None,
        typer.Option(help="Numerical precision: int8 is faster on a CPU, bfloat16 on a GPU (default: float32)."),
    ] = None

    @property
    def precision_name(self) -> "TranslationPrecision":
        """Returns the name of the precision, which is float32 if none is given."""
        return (self.precision or PrecisionName.FLOAT32).value

    def set_up(self) -> str:
        """Sets the number of threads of this process, and returns the name of the device.

        Raises ValueError if this machine does not have the device.
        """
        from transduce.runtime.device import set_up_device

        return str(set_up_device(self.device, self.threads, self.precision_name))


@dataclass(frozen=True)
class TargetChoice:
    """The target language, and the tag that describes the kind of text."""

    to: Annotated[str | None, typer.Option(help="Target language, such as de; needed if the model has several.")] = None
    tag: Annotated[
        str | None, typer.Option(help="Tag for the kind of text, one of those that the model was trained with.")
    ] = None

    def request(self, source_language: str | None = None) -> "SourceRequest":
        """Combines these choices and the source language into a request to the model."""
        from transduce.translation.source_request import SourceRequest

        return SourceRequest(self.to, source_language, self.tag)


@dataclass(frozen=True)
class OutputChoice:
    """The file that a command writes, and whether it may replace an existing file."""

    out: Annotated[Path | None, typer.Option(help="Output file, or - for standard output (the default).")] = None
    overwrite: OverwriteOption = False

    def __post_init__(self) -> None:
        """Treats the file name `-` as standard output, just as input options treat it as standard input."""
        if self.out == Path("-"):
            object.__setattr__(self, "out", None)


@dataclass(frozen=True)
class SearchChoice:
    """The settings of beam search or greedy search; options that are not given default to the model's settings."""

    beam: Annotated[int | None, typer.Option(min=1, help="Beam width (default: the model's setting).")] = None
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="Exponent α of the length penalty (default: the model's setting).")
    ] = None
    greedy: Annotated[bool, typer.Option("--greedy", help="Use greedy search instead of beam search.")] = False


@dataclass(frozen=True)
class SamplingChoice:
    """The settings of sampling, which replaces the search if any of the first three options is given."""

    temperature: Annotated[
        float | None,
        typer.Option(help="Sample at this temperature; 1 keeps the model's distribution, lower values sharpen it."),
    ] = None
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample only from the N most probable tokens.")] = None
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample only from the most probable tokens that together reach this probability."),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Random seed for sampling (default: 1).")] = (
        None
    )


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps `command` so that every field of a dataclass among its parameters becomes an option, and adds `--quiet`."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    records: dict[str, Any] = {}
    quiet_parameter = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QuietOption)
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            record: Any = hints[name]
            records[name] = record
            fields = get_type_hints(record, include_extras=True)
            of_record = inspect.signature(record).parameters.values()
            parameters += [field.replace(annotation=fields[field.name], kind=field.KEYWORD_ONLY) for field in of_record]
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY))

    parameters.append(quiet_parameter)

    @functools.wraps(command)
    def with_records(*, quiet: bool = False, **values: Any) -> None:
        for name, record in records.items():
            values[name] = record(**{field: values.pop(field) for field in inspect.signature(record).parameters})
        with no_progress() if quiet else contextlib.nullcontext():
            command(**values)

    vars(with_records)["__signature__"] = inspect.Signature(parameters)
    with_records.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_records


def word_of_value(annotation: object, help_text: str) -> str:
    """Returns the placeholder for an option's value in `--help`, for example FILE or N; it is empty for a flag."""
    while not isinstance(annotation, type):  # Annotated, Optional and list
        annotation = get_args(annotation)[0]
    if issubclass(annotation, Enum):
        return "|".join(str(member.value) for member in annotation)
    if annotation is str and "language" in help_text.lower():
        return "CODE"
    if annotation is Path and re.search("director|folder|model", help_text):
        return "DIRECTORY"
    return {Path: "FILE", int: "N", float: "NUMBER", str: "TEXT"}.get(annotation, "")


def range_in_words(least: float | None, most: float | None) -> str | None:
    """Describes a range in words, for example "at least 1"; returns None if there are no bounds worth showing."""
    if most is not None and most < 2**63 - 1:
        return f"at most {most:g}" if least is None else f"{least:g} to {most:g}"
    return None if least is None else f"at least {least:g}"


def use_plain_help(command: Any, function: Callable[..., None]) -> None:
    """Makes the `--help` of a command easier to read.

    Types and ranges are described in words instead of Python's notation, and two examples are added. `function` is the
    result of `spread`. If the installed version of Typer has different attributes, its own wording is kept.
    """
    annotations = dict(function.__annotations__)
    for parameter in command.params:
        if parameter.name not in annotations:
            continue
        help_text = parameter.help or ""
        word = word_of_value(annotations[parameter.name], help_text)
        if hasattr(parameter, "_get_number_range_help_str"):
            in_words = range_in_words(parameter.min, parameter.max)
            parameter._get_number_range_help_str = functools.partial(str, in_words) if in_words else lambda: None
        if parameter.param_type_name == "option":
            parameter.metavar = parameter.metavar or word or None
            if "--out" in parameter.opts:
                parameter.opts.append("-o")
        elif hasattr(parameter, "_usage_display_name"):
            name = parameter.metavar or f"{parameter.name.upper()}{'...' if parameter.nargs != 1 else ''}"
            shown = name if parameter.required or name.startswith("[") else f"[{name}]"
            parameter._usage_display_name = parameter._rich_display_name = functools.partial(str, shown)
            choices = word if "|" in word else None
            parameter.display_type_rich = functools.partial(lambda choices, ctx: choices, choices)
    command.format_epilog = lambda context, formatter: formatter.write(_examples_of(command.name))


def _examples_of(verb: str) -> str:
    """Returns the examples of a command under a heading."""
    from transduce.commands.examples import EXAMPLES

    return "\nExamples:\n" + "".join(f"  {example}\n" for example in EXAMPLES[verb])


def complete_key(incomplete: str) -> list[str]:
    """Returns the recipe keys that begin with `incomplete`, each followed by `=`, for shell completion.

    If there is only one such key, it is returned a second time with `=VALUE`, because bash would add a space after a
    single completion.
    """
    from transduce.recipe.recipe import Recipe
    from transduce.settings import key_paths

    replaced_whole = ("data.train.", "data.validation.", "data.test.")
    keys = [key for key in key_paths(Recipe) if key.startswith(incomplete) and not key.startswith(replaced_whole)]
    return [f"{keys[0]}=", f"{keys[0]}=VALUE"] if len(keys) == 1 else [f"{key}=" for key in keys]


SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting of the recipe; may be repeated.",
        autocompletion=complete_key,
    ),
]


def refuse_options(options: Mapping[str, Any], reason: str) -> None:
    """Raises ValueError for the first of `options` whose value is not None.

    `reason` continues the sentence "it …" in the message, for example with "is for training".
    """
    for name, value in options.items():
        if value is not None:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            raise ValueError(f"{name} {shown}: it {reason}; leave it out")


def search_method_of_options(
    decoding: "Decoding",
    search: SearchChoice,
    sampling: SamplingChoice | None = None,
    *,
    n_best: int = 1,
    no_repeat_ngram: int | None = None,
) -> "SearchMethod":
    """Builds the search method from the options of a command.

    Raises ValueError if the options contradict each other or `n_best` exceeds the beam; the message names the options.
    """
    from transduce.translation.search_method import SAMPLING_OPTIONS, search_method

    draws = {} if sampling is None else asdict(sampling)
    beams = {"--beam": search.beam, "--length-penalty": search.length_penalty}
    flags = {f"--{name.replace('_', '-')}": draws.get(name) for name in SAMPLING_OPTIONS}
    drawing = next((flag for flag, value in flags.items() if value is not None), None)
    if drawing is None:
        refuse_options({"--seed": draws.get("seed")}, "is for sampling: add --temperature, --top-k or --top-p")
    if search.greedy and drawing:
        raise ValueError(f"{drawing} draws tokens, and --greedy takes the most probable one: choose one")
    if search.greedy or drawing:
        refuse_options(beams, "is for a beam search")
        if n_best > 1:
            raise ValueError(
                f"--n-best {n_best}: only a beam has several translations; leave {drawing or '--greedy'} out"
            )
    beam = search.beam or decoding.beam
    if n_best > beam:
        raise ValueError(f"--n-best {n_best}: a beam of {beam} gives at most as many; use --beam {n_best}")
    return search_method(decoding, n_best, no_repeat_ngram=no_repeat_ngram, **asdict(search), **draws)
