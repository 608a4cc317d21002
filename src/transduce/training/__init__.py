"""This package implements training (section 5): the loss, the optimisers, the learning rate schedules and the loop.

Decoding, validation and checkpoints are not part of it. A good order in which to read the modules is `schedule`
(section 5.3), `objective` (5.4), `optimiser` (5.3) and `loop`, then `averaging` (6.1), `precision`, `divergence`,
`muon`, which is for small corpora, and `sharded`, which is for models that do not fit on one device.
"""
