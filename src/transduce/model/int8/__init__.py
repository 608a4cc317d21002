"""Searching with a Transformer in int8 on a CPU: quantised products, and kernels for what stands between them."""
