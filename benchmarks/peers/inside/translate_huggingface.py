"""Hugging Face's `generate` on ids: `python translate_huggingface.py TASK.json`."""

from pathlib import Path

import torch
import transformers
from timed import Ids, report, task
from weights import to_marian

asked = task()
model = to_marian(Path(asked["model"]))


@torch.inference_mode()
def translate(sentences: Ids) -> Ids:
    """Like lengths together, `batch` sentences at a time, the longest first."""
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    outputs: Ids = [[] for _ in sentences]
    for first in range(0, len(order), asked["batch"]):
        chosen = order[first : first + asked["batch"]]
        rows = [[*sentences[number], 2] for number in chosen]
        width = max(map(len, rows))
        source = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        found = model.generate(
            source,
            attention_mask=(source != 0).long(),
            num_beams=asked["beam"],
            length_penalty=asked["length_penalty"],
            max_new_tokens=width + 50,
            do_sample=False,
            bad_words_ids=[[0], [1]],
        )
        for number, row in zip(chosen, found.tolist(), strict=True):
            outputs[number] = [word for word in row if word > 2]
    return outputs


settings = {"batch": asked["batch"], "num_beams": asked["beam"], "transformers": transformers.__version__}
report(translate, asked["sentences"], settings)
