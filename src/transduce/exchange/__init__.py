"""Exports models to other engines, imports models from other programs, and checks that exports translate as ours do."""
