"""Translates ids with an exported model in CTranslate2: `python translate_ctranslate2.py TASK.json`."""

import json
from pathlib import Path

import ctranslate2
from timed import Ids, read_task, report

task = read_task()
folder = Path(task["exports"]) / "ctranslate2"
settings = {
    "compute_type": task["compute_type"],
    "inter_threads": task["inter_threads"],
    "intra_threads": task["intra_threads"],
    "max_batch_size": task["batch"],
    "batch_type": task["batch_type"],
    "beam_size": task["beam"],
    "length_penalty": task["length_penalty"],
}
translator = ctranslate2.Translator(
    str(folder),
    compute_type=task["compute_type"],
    inter_threads=task["inter_threads"],
    intra_threads=task["intra_threads"],
)


def read_vocabulary(side: str) -> list[str]:
    """Returns the names of all ids of a side."""
    own, shared = folder / f"{side}_vocabulary.json", folder / "shared_vocabulary.json"
    names: list[str] = json.loads((own if own.exists() else shared).read_text("utf-8"))
    return names


source = read_vocabulary("source")
ids = {name: number for number, name in enumerate(read_vocabulary("target"))}


def translate(sentences: Ids) -> Ids:
    """Translates; the engine sorts and batches."""
    results = translator.translate_batch(
        [[source[number] for number in sentence] for sentence in sentences],
        beam_size=task["beam"],
        length_penalty=task["length_penalty"],
        max_batch_size=task["batch"],
        batch_type=task["batch_type"],
        max_decoding_length=max(map(len, sentences)) + 51,  # one limit for all sentences; transduce has one for each
    )
    return [[ids[name] for name in result.hypotheses[0]] for result in results]


report(translate, task["sentences"], {**settings, "ctranslate2": ctranslate2.__version__})
