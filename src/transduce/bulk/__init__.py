"""Bulk translation of files, which are split into shards so that an interrupted translation can be resumed."""
