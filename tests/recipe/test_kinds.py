"""Models and mixers by their `kind`: those of the paper are imported when a recipe names them, and not before."""

import subprocess
import sys
from typing import Annotated

import pytest

from transduce.model.attention import Attention
from transduce.model.layers import MIXERS
from transduce.model.model_spec import MODELS
from transduce.settings import ByKind, Spec, validated

READ_RECIPES = """
import sys
from transduce.recipe.recipe import from_values

def satellites(model):
    from_values({"data": {"train": {"embedded": "train"}}, "model": model}, place="here")
    return [name for name in sys.modules if name.startswith("transduce.paper")]

assert satellites({"preset": "tiny"}) == []
assert "transduce.paper.models.bytenet" in satellites({"kind": "bytenet", "d_model": 4})
assert "transduce.paper.models.recurrent" not in satellites({"preset": "bytenet"})
"""


class _Part(Spec):
    attention: Annotated[Spec, ByKind({"attention": Attention, "other": "transduce.nowhere.other:Other"})]


def test_recipes_import_models_of_the_paper_that_they_name_and_no_others():
    subprocess.run([sys.executable, "-c", READ_RECIPES], check=True)


@pytest.mark.parametrize("table", [MODELS, MIXERS])
def test_tables_of_kinds_name_each_class_by_its_kind(table):
    kinds = {kind: table.class_of(kind).model_fields["kind"].default for kind in table.table}
    assert kinds == {kind: kind for kind in table.table}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "other"}, "`attention`: this needs `transduce.nowhere.other`, and there is no module"),
        ({"kind": "third"}, '`attention.kind` is "third"; did you mean `other`? kinds: attention, other'),
        (
            {"kind": "attention", "heads": 1, "d_k": 1, "d_v": 1, "head": 2},
            "`attention.head`; did you mean `attention.heads`?",
        ),
        ({"heads": 1}, "unable to extract tag using discriminator 'kind'"),
        (1, "`attention` is 1: write keys and values, such as {kind: NAME}"),
    ],
)
def test_faults_name_the_key_and_the_missing_module(values, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        validated(_Part, {"attention": values}, place="here")
    assert message in str(raised.value)


def test_a_record_and_its_values_are_the_same():
    attention = Attention(heads=1, d_k=2, d_v=3)
    part = _Part(attention=attention)
    assert part.attention is attention
    assert validated(_Part, part.as_dictionary(), place="here") == part
