"""Ours on text: `python translate_transduce.py TASK.json`. Cutting text into subwords is timed too."""

import json
import time
from pathlib import Path

import torch
from timed import task

from transduce.runtime.device import keep_freed_memory
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

asked = task()
keep_freed_memory()
translator = Translator.load(Path(asked["model"]), precision=asked["precision"])
changes = {"beam": asked["beam"], "length_penalty": asked["length_penalty"], "margin": asked["margin"]}
decoding = translator.decoding.model_copy(update=changes)
method = SearchMethod(decoding, greedy=asked["beam"] == 1)


def translate(lines: list[str]) -> list[list[int]]:
    """Returns the tokens of the best translation of each line."""
    return [best[0].tokens for best in translator.translate_lines(lines, method, batch_tokens=asked["batch"])]


translate(asked["lines"][::10])
began = time.perf_counter()
outputs = translate(asked["lines"])
seconds = time.perf_counter() - began
settings = {
    "precision": asked["precision"],
    "margin": asked["margin"],
    "batch_tokens": asked["batch"],
    "torch": torch.__version__,
}
print(json.dumps({"seconds": seconds, "outputs": outputs, "settings": settings}))
