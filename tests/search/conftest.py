"""What the toys assert is shown in full where it fails."""

import pytest

pytest.register_assert_rewrite("toys")
