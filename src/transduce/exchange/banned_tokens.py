"""The ban of tokens that no search chooses, as a bias of the model.

Programs that read an exported folder pass options of their own, or none, and would choose padding or the begin symbol
on odd lines. Where the format has no file of options that each program reads, the exported model itself has the ban.
"""

import copy

import torch
from torch import nn

from transduce.model import TransformerModel
from transduce.model_directory import Model
from transduce.translation.engine import SearchRules

__all__ = ["with_banned_tokens"]

BANNED_LOGIT = -3e4  # far below any logit, and a number in float16, which ends at 65,504


def with_banned_tokens(model: Model) -> Model:
    """Returns a model whose readout has a bias that bans tokens; all other weights are those of `model`.

    The log-probabilities of the other tokens are divided by the sum of their probabilities.
    """
    module = model.module
    assert isinstance(module, TransformerModel)
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    banning: TransformerModel = copy.deepcopy(module, shared)
    readout = module.readout
    bias = torch.zeros_like(readout.weight[:, 0]) if readout.bias is None else readout.bias.detach().clone()
    bias[list(SearchRules.of(model.config.model.symbols, model.target).banned)] = BANNED_LOGIT
    banning.readout.bias = nn.Parameter(bias)
    return model._replace(module=banning)
