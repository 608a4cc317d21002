"""Translates ids with CTranslate2: `python translate_ctranslate2.py TASK.json`."""

from pathlib import Path

import ctranslate2
from timed import Ids, read_task, report
from weights import to_ctranslate2

task = read_task()
ours, model = Path(task["model"]), Path(task["scratch"]) / "ctranslate2"
converted = model / "converted-from.json"  # the manifest has the checksum of the converted weights
if not converted.exists() or converted.read_bytes() != (ours / "manifest.json").read_bytes():
    to_ctranslate2(ours, model)
    converted.write_bytes((ours / "manifest.json").read_bytes())
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
    str(model),
    compute_type=task["compute_type"],
    inter_threads=task["inter_threads"],
    intra_threads=task["intra_threads"],
)


def translate(sentences: Ids) -> Ids:
    """Translates; the engine sorts and batches."""
    results = translator.translate_batch(
        [[f"w{number}" for number in sentence] for sentence in sentences],
        beam_size=task["beam"],
        length_penalty=task["length_penalty"],
        max_batch_size=task["batch"],
        batch_type=task["batch_type"],
        max_decoding_length=max(map(len, sentences)) + 51,  # one limit for all sentences; transduce has one for each
    )
    return [[int(word[1:]) for word in result.hypotheses[0] if word[0] == "w"] for result in results]


report(translate, task["sentences"], {**settings, "ctranslate2": ctranslate2.__version__})
