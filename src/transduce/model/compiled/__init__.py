"""Search with the Transformer on a CPU, in float32 and int8: code that numba compiles for the processor.

`instructions` has the inner loop of a product, `products` has matrices in tiles, `rows` and `layers` have everything
between two products, and `stepper` is the interface to search. `losses` serves training: R-Drop's pass over the logits
in float32.
"""
