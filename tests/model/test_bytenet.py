"""A block of ByteNet by hand (Kalchbrenner et al. 2016, section 3.6)."""

import torch

from transduce.model.baselines.bytenet import ResidualBlock

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


def raised(built, given):
    """The block over `given`, with nothing before its first place."""
    return built(given, torch.nn.functional.pad(built.reduced(given), (0, 0, built.span, 0)))


def heard(norm, given):
    """max(0, LN(given)), the norm written out."""
    centred = given - given.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    return (scaled * norm.weight + norm.bias).clamp(min=0)


def test_a_block_is_three_maps_behind_a_norm_and_a_relu_each_and_what_it_read():
    built, given = block(), states()
    narrow = heard(built.norms[0], given) @ built.reduce.weight.T + built.reduce.bias
    narrow = heard(built.norms[1], narrow)
    mixed = []
    for place in range(given.shape[1]):
        mixed.append(built.convolution.bias.expand(2, -1))
        for tap in range(KERNEL):
            before = place - (KERNEL - 1 - tap) * DILATION
            if before >= 0:
                mixed[-1] = mixed[-1] + narrow[:, before] @ built.convolution.weight[:, :, tap].T
    wide = heard(built.norms[2], torch.stack(mixed, dim=1)) @ built.expand.weight.T + built.expand.bias
    torch.testing.assert_close(raised(built, given), given + wide, rtol=0, atol=1e-11)


def test_a_block_whose_last_map_is_zero_is_the_identity():
    built, given = block(), states()
    with torch.no_grad():
        built.expand.weight.zero_()
        built.expand.bias.zero_()
    assert torch.equal(raised(built, given), given)
