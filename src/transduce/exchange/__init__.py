"""Exports models to other engines, imports models from them, and checks that exports translate as ours do."""
