"""The model card of a folder for Hugging Face's hub."""

import json
from typing import TYPE_CHECKING

from transduce.text.subwords import Subwords

if TYPE_CHECKING:
    from transduce.model_directory import Model

__all__ = ["hugging_face_card"]

CARD = """---
{languages}library_name: transformers
pipeline_tag: translation
tags: [translation, transduce]
# license: name the licence of this model here, for example `license: cc-by-4.0`
---

# {title}

A Transformer with {d_model} features, {origin} `transduce` and exported for `transformers`. `parity.json` compares
the log-probabilities and the translations of both.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

name = "."  # this folder, or its name on the hub
model = AutoModelForSeq2SeqLM.from_pretrained(name)
source = AutoTokenizer.from_pretrained(name)
{target}
inputs = source(["A sentence to translate."], return_tensors="pt", padding=True)
output = model.generate(input_ids=inputs.input_ids, attention_mask=inputs.attention_mask)
print(target.batch_decode(output, skip_special_tokens=True))
```

{limits}This page is free to edit: say here what the model is for, what it was trained on, and what it must not be used
for.
"""
ORIGINS = ("trained with", "trained by another program, imported by")
TARGETS = ("target = source", 'target = AutoTokenizer.from_pretrained(name, subfolder="target")')


def hugging_face_card(model: "Model", limits: str) -> str:
    """Returns README.md: the hub's metadata, an example that runs with `transformers` alone, and the `limits` there."""
    config = model.config
    languages = [code for code in (config.source_language, config.target_language) if code]
    return CARD.format(
        # Quoted, because YAML reads `no`, Norwegian, as False.
        languages=f"language: {json.dumps(languages)}\n" if languages else "",
        origin=ORIGINS[config.weights.kind == "imported"],
        title=f"{config.source_language or 'source'} → {config.target_language or 'target'}",
        d_model=config.model.d_model,
        limits=limits,
        target=TARGETS[model.source is not model.target and isinstance(model.source, Subwords)],
    )
