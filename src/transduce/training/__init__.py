"""Training (section 5): loss, optimiser, schedule and training loop; no search, no validation, no files.

Read `schedule` (5.3), `objective` (5.4), `optimiser` (5.3) and `loop` (one step); then `averaging` (6.1), `precision`,
`divergence`, `muon` for small corpora, and `sharded` for models that do not fit into one device.
"""
