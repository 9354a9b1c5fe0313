"""How much every contribution is shrunk, so that floating point cannot lengthen what one user moves.

Norms, clipping and accumulation run in float64. A user's clipped contribution is computed to a relative error below 2⁻⁴⁰
(d < 10¹⁰ coordinates), and the running sum of n contributions of norm ≤ S is off by at most n² · 2⁻⁵³ · S in any order of
addition, which moves by at most twice that when one user is added. `HEADROOM` shrinks every contribution by more than both up
to `MOST_USERS` in a round; a plan allows 100,000. In TF32 or float32 neither would hold.
"""

from __future__ import annotations

HEADROOM = 1 - 2.0**-18
MOST_USERS = 131_072

# An update that is longer counts as nothing, and a model that is longer has diverged. A user with fewer batches than others is
# padded with empty ones, whose derivatives are products with zero. Below this norm that zero is one: in models whose cells
# saturate, a number is a product of two parameters and of activations that a parameter bounds, at most about 1e27. Far above,
# 0 · inf would make nothing of a padded user's update, and one user's share would depend on who else is there.
LARGEST_NORM = 1e12
