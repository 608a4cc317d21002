"""Bulk translation of files in shards, in this process or by Ray actors; a call that was stopped can be resumed."""
