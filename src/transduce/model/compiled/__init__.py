"""Search with the Transformer on a CPU, in float32 and int8, in code that numba compiles for the processor.

`instructions` contains the inner loop of a matrix multiplication, `products` stores matrices in tiles, `rows` and
`layers` contain everything between two multiplications, and `stepper` is the interface to search. `losses` serves
training: it computes R-Drop's pass over the logits in float32.
"""
