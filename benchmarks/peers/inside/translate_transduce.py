"""Translates text with transduce: `python translate_transduce.py TASK.json`. The time includes encoding to subwords."""

import json
import time
from pathlib import Path

import torch
from timed import read_task

from transduce.runtime.device import set_up_device
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

task = read_task()
set_up_device("cpu")
translator = Translator.load(Path(task["model"]), precision=task["precision"])
changes = {"beam": task["beam"], "length_penalty": task["length_penalty"], "margin": task["margin"]}
decoding = translator.decoding.model_copy(update=changes)
method = SearchMethod(decoding, greedy=task["beam"] == 1)


def translate(lines: list[str]) -> list[list[int]]:
    """Returns the tokens of the best translation of each line."""
    return [best[0].tokens for best in translator.translate_lines(lines, method, batch_tokens=task["batch"])]


translate(task["lines"])  # memory is warm then, as at the peers
began = time.perf_counter()
outputs = translate(task["lines"])
seconds = time.perf_counter() - began
settings = {
    "precision": task["precision"],
    "margin": task["margin"],
    "batch_tokens": task["batch"],
    "torch": torch.__version__,
}
print(json.dumps({"seconds": seconds, "outputs": outputs, "settings": settings}))
