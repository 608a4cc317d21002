"""A block of ByteNet against its equations (Kalchbrenner et al. 2016, section 3.6)."""

import torch

from transduce.paper.models.bytenet import ResidualBlock

D_MODEL, KERNEL, DILATION = 8, 3, 2


def block():
    generator = torch.Generator().manual_seed(1)
    built = ResidualBlock(D_MODEL, KERNEL, DILATION, dropout=0.0).double()
    with torch.no_grad():
        for weight in built.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return built


def states():
    return torch.randn(2, 9, D_MODEL, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def apply_block(built, inputs):
    """Returns the output of the block, with zeros before the first position."""
    return built(inputs, torch.nn.functional.pad(built.convolution_input(inputs), (0, 0, built.span, 0)))


def norm_relu(norm, inputs):
    """Returns max(0, LayerNorm(inputs))."""
    centred = inputs - inputs.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    return (scaled * norm.weight + norm.bias).clamp(min=0)


def test_a_block_adds_three_maps_each_after_a_norm_and_relu():
    built, inputs = block(), states()
    reduced = norm_relu(built.norms[0], inputs) @ built.reduce.weight.T + built.reduce.bias
    reduced = norm_relu(built.norms[1], reduced)
    mixed = []
    for place in range(inputs.shape[1]):
        mixed.append(built.convolution.bias.expand(2, -1))
        for tap in range(KERNEL):
            before = place - (KERNEL - 1 - tap) * DILATION
            if before >= 0:
                mixed[-1] = mixed[-1] + reduced[:, before] @ built.convolution.weight[:, :, tap].T
    expanded = norm_relu(built.norms[2], torch.stack(mixed, dim=1)) @ built.expand.weight.T + built.expand.bias
    torch.testing.assert_close(apply_block(built, inputs), inputs + expanded, rtol=0, atol=1e-11)


def test_a_block_whose_last_map_is_zero_is_the_identity():
    built, inputs = block(), states()
    with torch.no_grad():
        built.expand.weight.zero_()
        built.expand.bias.zero_()
    assert torch.equal(apply_block(built, inputs), inputs)
