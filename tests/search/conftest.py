"""Has pytest show failed assertions of the toys in full."""

import pytest

pytest.register_assert_rewrite("toys")
