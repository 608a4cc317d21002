"""An exported folder in Hugging Face's `transformers`, used as its own users do."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.exchange.hugging_face_tokenizer import TARGET_FOLDER
from transduce.exchange.parity import EngineTranslation
from transduce.translation.results import one_line

__all__ = ["HuggingFaceEngine"]

LINES_AT_ONCE = 32


class HuggingFaceEngine:
    """`AutoModelForSeq2SeqLM` and `AutoTokenizer` of a folder."""

    def __init__(self, folder: Path) -> None:
        """Loads both; raises ValueError where `transformers` is not installed."""
        try:
            from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
        except ImportError:
            raise ValueError(
                "Hugging Face's transformers is not installed: `pip install 'transduce[hugging-face]'`"
            ) from None
        self._model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self._source = self._target = AutoTokenizer.from_pretrained(folder)
        if (folder / TARGET_FOLDER).is_dir():
            self._target = AutoTokenizer.from_pretrained(folder / TARGET_FOLDER)

    @torch.inference_mode()
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target, end symbol included."""
        scores = []
        for source, target in zip(sources, targets, strict=True):
            labels = self._target(text_target=target, return_tensors="pt").input_ids
            begin = torch.tensor([[self._model.config.decoder_start_token_id]])
            inputs = self._source(source, return_tensors="pt")
            logits = self._model(
                input_ids=inputs.input_ids,
                attention_mask=inputs.attention_mask,
                decoder_input_ids=torch.cat([begin, labels[:, :-1]], dim=1),
            ).logits
            of_tokens = logits.log_softmax(-1).gather(2, labels.unsqueeze(2))
            scores.append(of_tokens.flatten().double().numpy())
        return scores

    @torch.inference_mode()
    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> list[EngineTranslation]:
        """Returns the greedy translation of each line, cut after as many tokens as `bounds` has for the line."""
        translations: list[EngineTranslation] = []
        end = self._model.config.eos_token_id
        for first in range(0, len(lines), LINES_AT_ONCE):
            places = slice(first, first + LINES_AT_ONCE)
            inputs = self._source(list(lines[places]), return_tensors="pt", padding=True)
            output = self._model.generate(
                input_ids=inputs.input_ids,
                attention_mask=inputs.attention_mask,
                num_beams=1,
                do_sample=False,
                max_length=None,
                max_new_tokens=max(bounds[places]),
            )
            # The first token is the begin symbol.
            rows = [row[1 : bound + 1] for row, bound in zip(output.tolist(), bounds[places], strict=True)]
            rows = [row[: row.index(end)] if end in row else row for row in rows]
            texts = map(one_line, self._target.batch_decode(rows, skip_special_tokens=True))
            translations += map(EngineTranslation, texts, rows)
        return translations
