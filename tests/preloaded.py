"""What forked commands begin with: modules that take long to import, and the searches compiled."""

import gc
import importlib

from transduce.search.cpu_stepper import compile_searches

MODULES = [
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.summary.writer.event_file_writer",
    "torch._dynamo",
    "torch._inductor",
    "transduce.run.trainer",
]

for module in MODULES:
    importlib.import_module(module)
for int8 in (False, True):
    compile_searches(int8=int8)

# A child would look through all this at its first collection, and so copy its pages.
gc.collect()
gc.freeze()
