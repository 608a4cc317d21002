"""Memory networks against their equations in NumPy, one word at a time (Sukhbaatar et al. 2015, section 2)."""

import json

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from transduce.model import ModelSpec, Vocabulary
from transduce.model.positions import sinusoids

SOURCE = torch.tensor([[5, 9, 3, 7, 4], [8, 3, 0, 0, 0]])
TARGET = torch.tensor([[1, 4, 4, 10, 6, 11], [1, 12, 3, 9, 5, 7]])
D_MODEL, SPAN, HOPS, NEAR = 8, 3, 2, 0.1
PAIRS = {"adjacent": [(0, 1), (1, 2)], "layerwise": [(0, 1), (0, 1)], "untied": [(0, 1), (2, 3)]}

every_tying = pytest.mark.parametrize("tying", PAIRS)


def memory_network(tying):
    spec = {"kind": "memory_network", "d_model": D_MODEL, "hops": HOPS, "span": SPAN, "tying": tying}
    spec |= {"dropout": 0.0, "embeddings": "separate"}
    torch.manual_seed(1)
    built = TypeAdapter(ModelSpec).validate_json(json.dumps(spec), strict=True).build(Vocabulary(source=12, target=13))
    with torch.no_grad():
        for weight in built.parameters():
            weight.normal_(std=0.6)
    return built.double().eval()


def queried(model, tying, source, written):
    """The last hop's u of one sentence after the last of the words `written`: p = softmax(uᵀm), u ← u + Σ p c.

    The first u is Bx with B = A¹; layer by layer it goes through H from hop to hop; ReLU is on one half of it.
    """
    parts = [(table.source.weight, table.target.weight, table.ago) for table in model.tables]
    tables = [[part.detach().numpy() for part in table] for table in parts]
    places, recent = sinusoids(len(written) + len(source), D_MODEL).double().numpy(), written[-SPAN:]

    def remembered(table):
        tokens, own, ago = tables[table]
        return np.concatenate([tokens[source] + NEAR * places[: len(source)], own[recent] + ago[-len(recent) :]])

    query = tables[0][1][written[-1]] + NEAR * places[len(written) - 1]
    for read, given in PAIRS[tying]:
        powers = np.exp(remembered(read) @ query)
        gathered = powers / powers.sum() @ remembered(given)
        query = (model.between.weight.detach().numpy() @ query if tying == "layerwise" else query) + gathered
        query[D_MODEL // 2 :] = np.maximum(query[D_MODEL // 2 :], 0)
    return query


@every_tying
def test_hops_are_those_of_the_equations(tying):
    model = memory_network(tying)
    found = model(SOURCE, SOURCE != 0, TARGET).states.detach().numpy()
    for row, many in enumerate((5, 2)):
        for place in range(TARGET.shape[1]):
            written = TARGET[row, : place + 1].numpy()
            expected = queried(model, tying, SOURCE[row, :many].numpy(), written)
            np.testing.assert_allclose(found[row, place], expected, rtol=0, atol=1e-12)


@every_tying
def test_the_answer_is_of_the_last_output_table(tying):
    """Wᵀ = C^K (section 2.2); that B = A¹ is in the equations above."""
    model = memory_network(tying)
    last = list(model.tables)[PAIRS[tying][-1][1]].target.weight
    assert model.readout.weight is last
    states = model(SOURCE, SOURCE != 0, TARGET).states
    torch.testing.assert_close(model.readout(states), (states @ last.T).log_softmax(-1), rtol=0, atol=1e-12)
