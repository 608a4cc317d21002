"""CTranslate2 on ids: `python translate_ctranslate2.py TASK.json`."""

from pathlib import Path

import ctranslate2
from timed import Ids, report, task
from weights import to_ctranslate2

asked = task()
ours, model = Path(asked["model"]), Path(asked["scratch"]) / "ctranslate2"
carried = model / "carried-from.json"  # the manifest has the checksum of what was carried over
if not carried.exists() or carried.read_bytes() != (ours / "manifest.json").read_bytes():
    to_ctranslate2(ours, model)
    carried.write_bytes((ours / "manifest.json").read_bytes())
settings = {
    "compute_type": asked["compute_type"],
    "inter_threads": asked["inter_threads"],
    "intra_threads": asked["intra_threads"],
    "max_batch_size": asked["batch"],
    "batch_type": asked["batch_type"],
    "beam_size": asked["beam"],
    "length_penalty": asked["length_penalty"],
}
translator = ctranslate2.Translator(
    str(model),
    compute_type=asked["compute_type"],
    inter_threads=asked["inter_threads"],
    intra_threads=asked["intra_threads"],
)


def translate(sentences: Ids) -> Ids:
    """Sorted and batched by the engine itself."""
    found = translator.translate_batch(
        [[f"w{number}" for number in sentence] for sentence in sentences],
        beam_size=asked["beam"],
        length_penalty=asked["length_penalty"],
        max_batch_size=asked["batch"],
        batch_type=asked["batch_type"],
        max_decoding_length=max(map(len, sentences)) + 51,  # it has one for all; ours has one for each sentence
    )
    return [[int(word[1:]) for word in each.hypotheses[0] if word[0] == "w"] for each in found]


report(translate, asked["sentences"], {**settings, "ctranslate2": ctranslate2.__version__})
