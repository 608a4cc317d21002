"""Memory networks against their equations in NumPy, token by token (Sukhbaatar et al. 2015, section 2)."""

import json

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from transduce.model.embedding import sinusoids
from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary

SOURCE = torch.tensor([[5, 9, 3, 7, 4], [8, 3, 0, 0, 0]])
TARGET = torch.tensor([[1, 4, 4, 10, 6, 11], [1, 12, 3, 9, 5, 7]])
D_MODEL, SPAN, HOPS, DEVIATION = 8, 3, 2, 0.1
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


def last_query(model, tying, source, written):
    """Returns u of the last hop after the last of the tokens `written`: p = softmax(uᵀm), u ← u + Σ p c.

    The first u is Bx with B = A¹. With `layerwise` tying H maps u from hop to hop. ReLU applies to one half of u.
    """
    parts = [(table.source.weight, table.target.weight, table.ago) for table in model.tables]
    tables = [[part.detach().numpy() for part in table] for table in parts]
    positions, recent = sinusoids(len(written) + len(source), D_MODEL).double().numpy(), written[-SPAN:]

    def vectors(table):
        source_vectors, target_vectors, ago = tables[table]
        of_source = source_vectors[source] + DEVIATION * positions[: len(source)]
        return np.concatenate([of_source, target_vectors[recent] + ago[-len(recent) :]])

    query = tables[0][1][written[-1]] + DEVIATION * positions[len(written) - 1]
    for inputs, outputs in PAIRS[tying]:
        powers = np.exp(vectors(inputs) @ query)
        attended = powers / powers.sum() @ vectors(outputs)
        query = (model.between.weight.detach().numpy() @ query if tying == "layerwise" else query) + attended
        query[D_MODEL // 2 :] = np.maximum(query[D_MODEL // 2 :], 0)
    return query


@every_tying
def test_hops_are_those_of_the_equations(tying):
    model = memory_network(tying)
    states = model(SOURCE, SOURCE != 0, TARGET).states.detach().numpy()
    for row, length in enumerate((5, 2)):
        for place in range(TARGET.shape[1]):
            written = TARGET[row, : place + 1].numpy()
            expected = last_query(model, tying, SOURCE[row, :length].numpy(), written)
            np.testing.assert_allclose(states[row, place], expected, rtol=0, atol=1e-12)


@every_tying
def test_the_readout_is_the_last_output_table(tying):
    """Wᵀ = C^K (section 2.2)."""
    model = memory_network(tying)
    last = list(model.tables)[PAIRS[tying][-1][1]].target.weight
    assert model.readout.weight is last
    states = model(SOURCE, SOURCE != 0, TARGET).states
    torch.testing.assert_close(model.readout(states), (states @ last.T).log_softmax(-1), rtol=0, atol=1e-12)
