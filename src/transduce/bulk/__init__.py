"""Much text, shard by shard: in this process or by Ray's actors, and a call that was stopped is gone on with."""
