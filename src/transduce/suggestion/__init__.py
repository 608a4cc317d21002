"""A recipe suggested from a corpus, a machine and a number of minutes: candidates, short trainings, and a choice."""

from transduce.suggestion.candidates import RecipeCandidate, candidates
from transduce.suggestion.recipe_choice import Suggestion, suggest_recipe

__all__ = ["RecipeCandidate", "Suggestion", "candidates", "suggest_recipe"]
