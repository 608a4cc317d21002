"""The demo of translating: trains on the embedded corpus, measures, translates and draws, without a download."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from transduce import pages
from transduce.embedded import Example, split
from transduce.embedded.baselines import translation_memory, word_by_word
from transduce.measure import Score, scores
from transduce.recipe import Recipe, from_values
from transduce.recipe.presets import Values
from transduce.runtime.device import choose_device
from transduce.trainer.train import TrainOptions, run_training
from transduce.translation.translator import Translator

__all__ = ["demo_recipe", "demo_translation"]

RECIPE: Values = {
    "data": {
        "train": [{"embedded": "train"}],
        "validation": {"embedded": "validation"},
        "test": {"test": {"embedded": "test"}, "novel": {"embedded": "novel"}},
        "source_language": "en",
        "target_language": "de",
    },
    "subwords": {"kind": "bpe", "size": 4000},
    # Without dropout and label smoothing: five epochs of a grammar do not overfit. Pre-norm: it trains without the
    # long warm-up that five minutes have no time for.
    "model": {"preset": "tiny", "norm": "pre", "dropout": 0.0},
    "training": {
        "steps": None,
        "batch_tokens": 1024,
        "optimiser": {"kind": "muon"},
        "schedule": {"kind": "linear", "warmup": 200, "peak": 0.005},
        "label_smoothing": 0.0,
        "validate_every": None,
        "save_every": 100,
        "average": None,  # the rate ends at zero, so that the last weights are the best
    },
}

Say = Callable[[str], None]


def demo_recipe(minutes: float) -> Recipe:
    """Returns the recipe of the demo, which trains for `minutes`."""
    return from_values(RECIPE, [f"training.minutes={minutes}"], place="the demo")


def demo_translation(out: Path, minutes: float, options: TrainOptions, say: Say) -> dict[str, dict[str, Score]]:
    """Trains into `out`, then prints scores, translations and the path of a picture; returns scores[test set][system].

    Both test sets, `test` and `novel`, are unseen in training.
    """
    began = time.monotonic()
    say(f"training for {minutes:g} minutes on 40,000 embedded sentence pairs, into {out}")
    run_training(demo_recipe(minutes), out, options, say)
    translator = Translator.load(out, device=str(choose_device(options.device)))
    training = list(split("train"))
    results = {name: _scores_on(name, translator, training) for name in ("test", "novel")}
    say(f"\nsacreBLEU ({results['test']['model'].signature})")
    say(f"{'':24}{'unseen test':>14}{'novel pairs':>14}")
    for system in results["test"]:
        say(f"{system:24}{results['test'][system].score:14.2f}{results['novel'][system].score:14.2f}")
    say("")
    for example in list(split("novel"))[:5]:
        say(f"  {example.source}\n  {translator.translate(example.source).text}\n")
    picture = out / "attention.html"
    sentence = next(iter(split("test"))).source
    pages.draw_attention(translator.explain(sentence), picture)
    say(f"picture of the attention: {picture}")
    say(f"done in {(time.monotonic() - began) / 60:.1f} minutes; now type")
    say(f'\n    echo "{sentence}" | transduce translate {out}\n')
    return results


def _scores_on(name: str, translator: Translator, training: Sequence[Example]) -> dict[str, Score]:
    """Returns the BLEU of the model and of two baselines without training on a test set."""
    examples = list(split(name))
    sources, references = [example.source for example in examples], [example.target for example in examples]
    outputs = {
        "model": [translation.text for translation in translator.translate(sources)],
        "translation memory": translation_memory(training, sources),
        "word by word": word_by_word(training, sources),
    }
    return {system: scores(lines, [references])["bleu"] for system, lines in outputs.items()}
