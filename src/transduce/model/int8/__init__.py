"""Translation in int8 on a CPU by torch's products: `quantise` returns a copy of a model with its weights in int8."""
