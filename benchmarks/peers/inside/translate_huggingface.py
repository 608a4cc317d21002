"""Translates ids with an exported model and Hugging Face's `generate`: `python translate_huggingface.py TASK.json`."""

from pathlib import Path

import torch
import transformers
from timed import Ids, read_task, report
from transformers import AutoModelForSeq2SeqLM

task = read_task()
model = AutoModelForSeq2SeqLM.from_pretrained(Path(task["exports"]) / "hugging-face").eval()


@torch.inference_mode()
def translate(sentences: Ids) -> Ids:
    """Translates `batch` sentences of similar lengths at a time, the longest first."""
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    outputs: Ids = [[] for _ in sentences]
    for first in range(0, len(order), task["batch"]):
        chosen = order[first : first + task["batch"]]
        rows = [[*sentences[number], 2] for number in chosen]
        width = max(map(len, rows))
        source = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        generated = model.generate(
            source,
            attention_mask=(source != 0).long(),
            num_beams=task["beam"],
            length_penalty=task["length_penalty"],
            max_new_tokens=width + 50,
            do_sample=False,
        )
        for number, row in zip(chosen, generated.tolist(), strict=True):
            outputs[number] = [token for token in row if token > 2]
    return outputs


settings = {"batch": task["batch"], "num_beams": task["beam"], "transformers": transformers.__version__}
report(translate, task["sentences"], settings)
