"""The whole of a training: prepare, train, validate, checkpoint, select weights, publish a model directory."""
