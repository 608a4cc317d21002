"""Bulk translation: files shard by shard, in this process or by Ray's actors; a call that was stopped is resumed."""
