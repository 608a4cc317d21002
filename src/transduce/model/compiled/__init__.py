"""The Transformer's searches on a CPU in code that numba compiles for the processor, in float32 and in int8.

`instructions` has the inner loop of a product, `products` matrices in tiles, `rows` and `layers` what stands between
products, `stepper` the interface to search. `losses` is of training: R-Drop's pass over the logits in float32.
"""
