from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tacit.models.layers.scatter_add import add_rows


def test_rows_of_a_repeated_index_are_all_added():
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    indices, rows = np.array([4, 1, 4, 4]), np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
    expected = table.copy()
    np.add.at(expected, indices, rows)
    np.testing.assert_array_equal(add_rows(jnp.asarray(table), jnp.asarray(indices), jnp.asarray(rows)), expected)


def test_a_vector_is_a_table_of_numbers():
    added = add_rows(jnp.zeros(3), jnp.array([2, 0, 2]), jnp.array([1.0, 5.0, 2.0]))
    np.testing.assert_array_equal(added, [5.0, 0.0, 3.0])
