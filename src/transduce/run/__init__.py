"""A whole run: prepares, trains, validates, saves checkpoints, selects weights and publishes a model directory."""
