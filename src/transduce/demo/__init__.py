"""The demos: each trains on the embedded corpus, measures and draws, without a download."""

from transduce.demo.parsing import demo_parsing
from transduce.demo.translating import demo_recipe, demo_translation

__all__ = ["demo_parsing", "demo_recipe", "demo_translation"]
