"""A whole training: prepare, train, validate, save checkpoints, select weights, publish a model directory."""
