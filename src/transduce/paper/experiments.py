"""Defines all experiments, by name.

Running an experiment writes its results to a file. Printing an experiment reads only this file, and does not train.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from transduce.paper import (
    attention_heads,
    distance_costs,
    resolution,
    scaled_dot_product,
    table1,
    table2,
    table3,
    table4,
)
from transduce.paper.experiment_scales import ExperimentOptions
from transduce.paper.finished_runs import as_json, collect_records, distribute_records
from transduce.paper.provenance import Provenance, provenance_of_this_call
from transduce.runtime.device import choose_device
from transduce.storage.atomic import atomic_write, atomic_write_text
from transduce.storage.locks import wait_for_lock


class ExperimentResults(NamedTuple):
    """The content of a results file.

    It holds all data of a page; the text of the page is part of the code.
    """

    corpus: str  # description; empty if there is none
    provenance: Provenance
    results: Any  # of the type in the `results_type` of the experiment


class ExperimentDefinition(NamedTuple):
    """Defines how an experiment is run, and how its results are turned into text and plots."""

    title: str  # may contain {corpus}, which is replaced with the description of the corpus
    results_type: Any
    run: Callable[[ExperimentOptions], tuple[str, Any]]  # → description of the corpus, results
    as_text: Callable[[Any], str]
    draw: Callable[[Any, Path], None] | None = None
    draw_examples: Callable[..., None] | None = None  # draws NAME-examples.svg, to which the text refers
    seeds: int = 1  # of each row, unless the user gives a number


def run_experiment(name: str, options: ExperimentOptions, out: Path) -> None:
    """Trains and measures what an experiment has no results for, and writes all its results to NAME.json in `out`."""
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    distribute_records(out, options.work)
    try:
        corpus, results = EXPERIMENTS[name].run(options._replace(work=options.work / f"{name}-{options.scale}"))
    finally:
        collect_records(out, options.work)  # keeps the finished runs even if the experiment fails
    provenance = provenance_of_this_call(choose_device(options.training.device), time.monotonic() - began)
    values = as_json(ExperimentResults(corpus, provenance, results))
    atomic_write_text(_results_path(name, out), json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def print_experiment(name: str, out: Path) -> str:
    """Returns the page of an experiment, which is made only from the results in NAME.json.

    Also writes the page to NAME.md in the same folder, together with its pictures. Raises ValueError if the results are
    missing or cannot be read.
    """
    experiment = EXPERIMENTS[name]
    file = _read_file(name, out)
    title = experiment.title.format(corpus=file.corpus)
    picture = f"![{title}]({name}.svg)\n\n" if experiment.draw else ""
    page = f"# {title}\n\n{picture}{experiment.as_text(file.results)}\n\n{file.provenance}\n"
    with wait_for_lock(out):  # several processes may print the same table at once
        for picture_name, draw in ((name, experiment.draw), (f"{name}-examples", experiment.draw_examples)):
            if draw is not None:
                atomic_write(out / f"{picture_name}.svg", partial(draw, file.results))
        atomic_write_text(out / f"{name}.md", page)
    return page


def read_results(name: str, out: Path) -> object:
    """Returns the results of an experiment in `out`; raises ValueError if they are missing or cannot be read."""
    return _read_file(name, out).results


def _read_file(name: str, out: Path) -> ExperimentResults:
    path = _results_path(name, out)
    try:
        file: ExperimentResults = TypeAdapter(ExperimentResults).validate_json(path.read_bytes())
        return file._replace(results=TypeAdapter(EXPERIMENTS[name].results_type).validate_python(file.results))
    except FileNotFoundError:
        raise ValueError(
            f"there are no results in {path}: add --run to train and measure, or name the folder of results with --out"
        ) from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"]))
        raise ValueError(
            f"{path} is damaged or of another version ({key or 'the file'}: {fault['msg']}): add --run, which writes "
            "the file again and trains only rows that have no record"
        ) from None


def has_results(name: str, out: Path) -> bool:
    """Returns True if `out` contains the results of an experiment."""
    return _results_path(name, out).exists()


def _results_path(name: str, out: Path) -> Path:
    return out / f"{name}.json"


EXPERIMENTS = {
    "table1": ExperimentDefinition(
        "Table 1: what each kind of layer costs",
        table1.LayerMeasurements,
        table1.run_table1,
        table1.as_text,
        table1.draw,
    ),
    "table2": ExperimentDefinition(
        "Table 2: the systems beside each other ({corpus})", table2.SystemComparison, table2.run_table2, table2.as_text
    ),
    "table3": ExperimentDefinition(
        "Table 3: variations of the base model ({corpus})",
        list[table3.VariationResult],
        table3.run_table3,
        table3.as_text,
    ),
    "table4": ExperimentDefinition(
        "Table 4: English constituency parsing ({corpus})",
        table4.ParserComparison,
        table4.run_table4,
        table4.as_text,
        table4.draw,
    ),
    "scaling": ExperimentDefinition(
        "Section 3.2.1: the size of d_k and how a query fits a key ({corpus})",
        list[scaled_dot_product.CompatibilityResult],
        scaled_dot_product.run_scaling,
        scaled_dot_product.as_text,
        scaled_dot_product.draw,
    ),
    "distance": ExperimentDefinition(
        "Sections 4 and 3.5: what distance costs ({corpus}, and artificial sequences)",
        distance_costs.DistanceResults,
        distance_costs.run_distance,
        distance_costs.as_text,
        distance_costs.draw,
    ),
    "heads": ExperimentDefinition(
        "Section 4 and figures 3 to 5: what the heads learn ({corpus})",
        list[attention_heads.SeedHeads],
        attention_heads.run_heads,
        attention_heads.as_text,
        attention_heads.draw,
        attention_heads.draw_examples,
        seeds=3,
    ),
    "resolution": ExperimentDefinition(
        "Sections 2 and 3.2.2: what averaging costs, and whether heads counteract it",
        list[resolution.ItemRecall],
        resolution.run_resolution,
        resolution.as_text,
        resolution.draw,
        seeds=5,
    ),
}
