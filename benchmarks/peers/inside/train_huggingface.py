"""Trains with Hugging Face's `Seq2SeqTrainer` on ids, and prints its speed: `python train_huggingface.py TASK.json`."""

import time
from pathlib import Path
from typing import Any

import torch
from timed import read_task
from transformers import MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

task = read_task()
settings = task["settings"]


def read_sentences(side: str) -> list[list[int]]:
    """Returns the ids of the sentences of a side, each with its end."""
    lines = (Path(task["folder"]) / f"train.{side}").read_text("utf-8").splitlines()
    return [[int(word[1:]) for word in line.split()] + [2] for line in lines]


def collate(pairs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Returns padded rectangles: 0 in the source, −100 in the labels; the decoder reads the labels shifted by one."""
    sides = {}
    for name, padding in (("input_ids", 0), ("labels", -100)):
        width = max(len(pair[name]) for pair in pairs)
        sides[name] = torch.tensor([pair[name] + [padding] * (width - len(pair[name])) for pair in pairs])
    shifted = torch.nn.functional.pad(sides["labels"].clamp(min=0)[:, :-1], (1, 0), value=1)
    return {**sides, "decoder_input_ids": shifted, "attention_mask": (sides["input_ids"] != 0).long()}


class Trainer(Seq2SeqTrainer):  # type: ignore[misc]
    """Prints target tokens a second every ten steps."""

    tokens, steps, began = 0, 0, time.perf_counter()

    def training_step(self, model: Any, inputs: Any, *rest: Any) -> Any:
        """Counts tokens and runs the step of the library."""
        if self.steps and self.steps % 10 == 0:
            now = time.perf_counter()
            print(f"{self.tokens / (now - self.began):.1f} tokens a second", flush=True)
            self.tokens, self.began = 0, now
        self.tokens += int((inputs["labels"] != -100).sum())
        self.steps += 1
        return super().training_step(model, inputs, *rest)


model = MarianMTModel(
    MarianConfig(
        vocab_size=settings["vocabulary"],
        d_model=settings["d_model"],
        encoder_layers=settings["layers"],
        decoder_layers=settings["layers"],
        encoder_attention_heads=settings["heads"],
        decoder_attention_heads=settings["heads"],
        encoder_ffn_dim=settings["d_ff"],
        decoder_ffn_dim=settings["d_ff"],
        activation_function="relu",
        scale_embedding=True,
        dropout=settings["dropout"],
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
)
sides = zip(read_sentences("src"), read_sentences("trg"), strict=True)
pairs = [{"input_ids": source, "labels": target} for source, target in sides]
arguments = Seq2SeqTrainingArguments(
    output_dir=task["scratch"],
    use_cpu=task["device"] == "cpu",
    bf16=task["bfloat16"],
    max_steps=100_000,
    per_device_train_batch_size=task["sentences_a_step"],
    train_sampling_strategy="group_by_length",
    learning_rate=settings["peak"],
    lr_scheduler_type="inverse_sqrt",
    warmup_steps=settings["warmup"],
    adam_beta2=0.98,
    max_grad_norm=0.0,
    label_smoothing_factor=0.1,
    save_steps=task["every"],
    report_to=[],
    disable_tqdm=True,
    dataloader_pin_memory=task["device"] != "cpu",
)
Trainer(model=model, args=arguments, train_dataset=pairs, data_collator=collate).train()
