"""Whether two recipes train the same trial: budget and folders of the corpora do not count."""

from pathlib import Path
from typing import Any

from transduce.corpus import PATHS
from transduce.recipe import Recipe
from transduce.settings import merged, validated

UNBOUNDED = {"steps": None, "epochs": None, "minutes": None}


def is_same_recipe(written: Any, recipe: Recipe) -> bool:
    """Returns whether `written`, the values of a recipe file, has the identity of `recipe`."""
    try:
        earlier = validated(Recipe, written, place="recipe")
    except ValueError:
        return False
    return bool(recipe_identity(earlier) == recipe_identity(recipe))


def recipe_identity(recipe: Recipe) -> Any:
    """Returns the values of a recipe without its budget; of the paths of corpora only the names of files."""
    return _without_folders(merged(recipe.as_dictionary(), {"training": UNBOUNDED}))


def _without_folders(values: Any) -> Any:
    match values:
        case dict():
            return {
                key: Path(value).name if key in PATHS and isinstance(value, str) else _without_folders(value)
                for key, value in values.items()
            }
        case list():
            return [_without_folders(value) for value in values]
    return values
