"""Translates greedily with a saved `MarianMTModel`: `python greedy_huggingface.py MODEL SOURCE OUTPUT`."""

import sys
from pathlib import Path

import torch
from transformers import MarianMTModel

BATCH = 64

model = MarianMTModel.from_pretrained(sys.argv[1]).eval()
lines = Path(sys.argv[2]).read_text("utf-8").splitlines()
order = sorted(range(len(lines)), key=lambda number: len(lines[number].split()))
outputs = [""] * len(lines)
with torch.inference_mode():
    for first in range(0, len(order), BATCH):
        chosen = order[first : first + BATCH]
        rows = [[*(int(word[1:]) for word in lines[number].split()), 2] for number in chosen]
        width = max(map(len, rows))
        source = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        generated = model.generate(
            source,
            attention_mask=(source != 0).long(),
            num_beams=1,
            do_sample=False,
            max_new_tokens=width + 50,
            bad_words_ids=[[0], [1]],
        )
        for number, row in zip(chosen, generated.tolist(), strict=True):
            outputs[number] = " ".join(f"w{token}" for token in row if token > 2)
Path(sys.argv[3]).write_text("".join(f"{line}\n" for line in outputs), "utf-8")
