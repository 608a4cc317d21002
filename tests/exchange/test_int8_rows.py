"""Matrices in int8 for other engines."""

import numpy as np

from transduce.exchange.transformer_weights import int8_rows


def test_a_matrix_is_the_integers_times_the_scales_and_no_pair_of_products_overflows():
    matrix = np.random.default_rng(1).standard_normal((5, 40)).astype(np.float32) * [[1e-3], [1], [50], [0], [1e-39]]
    numbers, scales = int8_rows(matrix)
    assert numbers.dtype == np.int8
    assert np.abs(numbers[:3]).max(1).tolist() == [64, 64, 64]
    assert (np.abs(numbers * scales[:, None] - matrix) <= scales[:, None] / 2 * 1.001).all()
    assert np.isfinite(1 / scales).all()
    assert 2 * 255 * int(np.abs(numbers).max()) < 2**15
