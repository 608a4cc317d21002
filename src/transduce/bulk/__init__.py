"""Bulk translation of files in shards, in this process or by actors of Ray; a call that was stopped can be resumed."""
