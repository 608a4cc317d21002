"""Search with the Transformer on a CPU, in float32 or int8, with code that numba compiles for the processor.

`instructions` contains the inner loop of matrix multiplication, and `products` stores matrices in the tiles that this
loop reads. `rows` and `layers` contain the operations between two multiplications, and `stepper` is the interface to
search. `losses` is used in training instead: it computes the R-Drop loss from the logits, in float32.
"""
