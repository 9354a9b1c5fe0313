#!/usr/bin/env python3
"""Checks the certificate of a Tacit run (`tacit certify`) without Tacit: Proved (exit code 0), or Not proved, because ... (1).

    python tacit_verify.py certificate.json [--key KEY] [--head FILE] [--witness KEY] [--model FILE]

What it costs is computed from the ledger: every attempt at a round, and the planned rounds to come. A sampled round is two laws of
one number x whose likelihood ratio rises with x (Zhu, Dong, Wang 2022). Outcomes between two points of a grid of losses are split
at random between the points, so that both laws keep their mass: what was split tells more, so epsilon can only grow. Masses are
tilted exponentially, to put the digits where delta is decided, and rounds are added up by FFT; what that may lose is added.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import sys
from collections import Counter
from functools import cache
from itertools import pairwise, product, zip_longest
from typing import Any

import numpy as np
from scipy import fft, special

MOST_BYTES, MOST_ROUNDS = 1 << 26, 2_000_000
CORRELATED = ("tree", "blt", "banded")
PROVEN = {"gaussian": "poisson fixed check_in", "words": "poisson"}
PROVEN |= {"tree": "check_in", "blt": "check_in", "banded": "check_in cyclic_poisson"}
SAME = ("population", "adjacency", "unit")
ADJACENCY = {"fixed": "replace one user", "check_in": "zero out one user"}
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493  # edwards25519: the field, the order of the base point
D = -121665 * pow(121666, -1, P) % P

class NotProved(Exception):
    """Why, as a clause without a full stop."""

def require(holds: Any, why: str) -> None:
    if not holds:
        raise NotProved(why)

def number(value: Any, low: float, high: float, kinds: Any = (int, float)) -> Any:
    require(type(value) in kinds and low <= value <= high, f"one of its numbers is not one from {low:g} to {high:g}")
    return value

def whole(value: Any, low: int = 0, high: int = MOST_ROUNDS) -> int:
    return int(number(value, low, high, (int,)))

def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")

def signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether this is an Ed25519 signature of the message."""

    def point(data: bytes) -> tuple[int, int]:
        y, sign = int.from_bytes(data, "little") & (2**255 - 1), data[31] >> 7
        u, v = y * y - 1, D * y * y + 1
        x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
        x = x if (v * x * x - u) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
        require(y < P and (v * x * x - u) % P == 0 and (x or not sign), "a key is no point of the curve")
        return (x if x & 1 == sign else P - x), y

    def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        (x, y), (X, Y), k = one, other, D * one[0] * other[0] * one[1] * other[1] % P
        inverse = pow((1 + k) * (1 - k), -1, P)
        return (x * Y + y * X) * (1 - k) * inverse % P, (y * Y + x * X) * (1 + k) * inverse % P

    if (len(key), len(signature)) != (32, 64) or (s := int.from_bytes(signature[32:], "little")) >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    base, (x, y), found = point((4 * pow(5, -1, P) % P).to_bytes(32, "little")), point(key), (0, 1)
    for bit in reversed(range(253)):  # s times the base point, less k times the key
        found = add(found, found)
        found = add(found, base) if s >> bit & 1 else found
        found = add(found, (P - x, y)) if k >> bit & 1 else found
    return (found[1] | (found[0] & 1) << 255).to_bytes(32, "little") == signature[:32]

def tree_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, level by level: the last node of an odd level goes up as it is."""
    while len(leaves) > 1:
        nodes = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(leaves[::2], leaves[1::2], strict=False)]
        leaves = nodes + leaves[len(leaves) & ~1 :]
    return leaves[0] if leaves else hashlib.sha256(b"").digest()

def public_key(text: str) -> tuple[str, bytes, int, bytes]:
    """Name, id, type (1: of a log, 4: of a witness) and key of 'name+id+base64'."""
    name, shown, typed = (part(each) for part, each in zip((str, str, base64.b64decode), text.strip().split("+", 2), strict=True))
    identity = hashlib.sha256(name.encode() + b"\n" + typed).digest()[:4]
    require(len(typed) == 33 and typed[0] in (1, 4) and identity.hex() == shown, "a public key is not whole (name+id+key)")
    return name, identity, typed[0], typed[1:]

def size_of(which: str, head: str, keys: list[Any], origin: str, leaves: list[bytes]) -> int:
    """How many records the signed head (C2SP's tlog-checkpoint) has. One of the keys signed it, and the ledger begins with them."""
    body, _, below = head.partition("\n\n")
    (name, size, root), signatures = body.split("\n")[:3], [line.split(" ") for line in below.split("\n")[:16] if line]
    by = False
    for (_, signer, packed), key in product(signatures, keys):
        content = base64.b64decode(packed)
        time = f"cosignature/v1\ntime {int.from_bytes(content[4:12], 'big')}\n" if key[2] == 4 else ""
        by = by or ((signer, content[:4]) == key[:2] and signed(key[3], content[12 if time else 4 :], f"{time}{body}\n".encode()))
    require(by and name == origin, f"{which} is not signed with a key of this run, or is one of another run")
    longer = f"{which} has {size} records and its ledger {len(leaves)}: it is older, or the ledger's end was cut off"
    require(size.isdecimal() and int(size) <= len(leaves), longer)
    same = base64.b64encode(tree_root(leaves[: int(size)])).decode() == root
    require(same, f"its first {size} records are not those of {which}: they were changed or exchanged")
    return int(size)

def read_ledger(lines: list[str]) -> list[dict[str, Any]]:
    """The records, each of which may follow the one before. The first gets the rounds planned last, and those before that."""
    records: list[dict[str, Any]] = []
    previous, attempts, live, following, closed = "0" * 64, Counter[int](), dict[int, int](), 0, ""
    for place, line in enumerate(lines):
        where, record = f"record {place} of its ledger", json.loads(line)
        require(canonical(record).decode() == line, f"{where} is not in canonical JSON")
        digest, kind = record.pop("digest", None), record["kind"]
        require(digest == hashlib.sha256(canonical(record)).hexdigest(), f"{where} was changed: its digest does not fit")
        chained = (record.pop("seq", None), record.pop("previous", None)) == (place, previous)
        require(chained, f"{where} does not follow the one before: a record was cut out, moved or exchanged")
        first, goes_on = records[0] if records else record, {"stopped": "resumed", "finished": "extended", "": kind}.get(closed)
        require((kind == "opened") == (place == 0) and kind == goes_on, f"{where} is out of place")
        previous, round, fits = digest, whole(record["round"]) if "round" in record else following, True
        if kind == "opened":
            fits = len(record) == 30 and whole(record["rounds"]) > 0 and record["format"] == 7
            record["extended_from"] = []
        elif kind == "intent":
            fits = len(record) == 8 and round in (following, following - 1) and whole(record["attempt"]) == attempts[round]
            attempts[round], live[round], following = attempts[round] + 1, record["attempt"], round + 1
        elif kind == "committed":
            fits = whole(record["rounds_done"]) <= following
        elif kind == "resumed":
            fits = round <= following and record["lost"] == [[each, live[each]] for each in sorted(live) if each >= round]
            live, following, closed = {each: live[each] for each in live if each < round}, round, ""
        elif kind == "extended":
            fits = closed == "finished" and whole(record["rounds"]) > first["rounds"]
            first["extended_from"], first["rounds"], closed = [*first["extended_from"], first["rounds"]], record["rounds"], ""
        else:
            fits, closed = round == following and kind in ("adjusted", "closed"), record.get("outcome", "")
        require(fits, f"{where} says what cannot come next, or is of a format that is not known here")
        records.append(record)
    return records

def require_plan(opened: dict[str, Any], intents: list[dict[str, Any]]) -> dict[str, Any]:
    """The plan, whose kind is proven here and which every intent follows; an intent gets its noise multiplier as a whole."""
    plan, mechanism, sums, sampling = opened["plan"], opened["mechanism"], opened["secure_sum"], opened["plan"]["sampling"]
    secagg, restarts, cohort = plan["secagg"], plan["restarts"], number(plan["cohort"], 1e-9, 1e12)
    population, neighbours = whole(plan["population"], 1, 10**12), ADJACENCY.get(sampling, "add or remove one user")
    same = (plan["mechanism"], population, neighbours, "user") == (mechanism, *(opened[name] for name in SAME))
    fits = not sums or (sampling in ("fixed", "check_in") and 2 ** whole(secagg["bits"], 2, 32) > 2 * cohort)
    for holds, why in (
        (len(plan) == 21 and same, "the first record of its ledger contradicts its plan, or the plan's format is not known here"),
        (opened["seeded"] is False, "its noise was made from a seed and can be replayed"),
        (opened["reasons_not_private"] == [], "its ledger itself gives reasons why no privacy may be claimed"),
        (not opened["outside"] and plan["participation"] is None and ":" not in mechanism, "it rests on a claim of an author "
         "outside Tacit about the cost of a mechanism or who takes part, which nobody can compute from the ledger"),
        (sampling in PROVEN.get(mechanism, "").split(), f"nothing is proven here for the mechanism {mechanism} with its sampling"),
        (cohort <= population and (mechanism == "words" or cohort <= 1e5), "its cohort is larger than the proof allows"),
        (all(a < b for a, b in pairwise([0, *map(whole, restarts), opened["rounds"]])), "its restarts are not those of a plan"),
        ((secagg is None) == (sums is None) and fits, "its secure sums may wrap around, or are not the plan's"),
    ):
        require(holds, why)
    z, q, groups, size = number(plan["noise_multiplier"], 1e-6, 1e6), cohort / population, plan["bands"], {"size": int(cohort)}
    number(plan["delta"], 1e-300, 0.5), number(plan["clip_norm"], 1e-30, 1e30)
    law = {"kind": sampling, "probability": q}
    if sampling == "cyclic_poisson":
        law |= {"probability": number(whole(groups, 1) * cohort / population, 0, 1), "groups": groups}
    elif sampling == "fixed":
        law = {"kind": sampling, "population": population, **size}
    elif sampling == "check_in":
        law = {"kind": sampling, **size, **{name: plan[name] for name in ("min_separation", "max_participation")}}
    widened = 1.0 if not sums else math.sqrt(whole(sums["norm_limit_squared"], 1, 10**30)) / sums["scale"] * (1 + 2.0**-20)
    beside = {"weight": 1.0} if plan["estimator"] == "clipped" else {}
    beside |= {} if plan["adaptive"] is None else {"within": 0.5}
    for intent in intents:
        blocks, clips = intent["blocks"], [each["clip_norm"] for each in plan["clip_schedule"] if each["round"] <= intent["round"]]
        intent["z"] = math.fsum(number(each["noise_multiplier"], 1e-9, 1e300) ** -2 for each in blocks.values()) ** -0.5
        bounds = {name: number(each["bound"], 1e-300, 1e300) for name, each in blocks.items()}
        clip = bounds["update"] if plan["adaptive"] else [plan["clip_norm"], *clips][-1] * widened
        for holds, what in (
            (intent["sampling"] == law, "sampling"),
            (math.isclose(intent["z"], z, rel_tol=1e-9), "noise"),
            (math.isclose(bounds.pop("update"), clip, rel_tol=1e-12) and bounds == beside, "bound on a user's share"),
            (intent["denominator"] == q * (plan["total_weight"] or population), "denominator"),
            (intent["restart"] is (intent["round"] in restarts), "restart"),
        ):
            require(holds, f"round {intent['round']}, attempt {intent['attempt']}, had another {what} than the plan says")
    return dict(plan)

def column(strategy: dict[str, Any], longest: int) -> Any:
    """The first column c of a Toeplitz strategy C[t, s] = c_(t-s), over a stretch of so many rounds."""
    require(longest <= min(whole(strategy["horizon"], 1), 10**6), "its strategy was made for fewer rounds without a restart")
    if strategy["strategy"] == "banded":
        c = np.array([number(each, -1e9, 1e9) for each in strategy["coefficients"]], float)
        require(c[0] == 1, "the first coefficient of its strategy is not 1")
        return np.append(c, np.zeros(max(0, longest - len(c))))[:longest]
    theta, omega = (np.array([number(each, 0, 1) for each in strategy[name]]) for name in ("theta", "omega"))
    require((theta < 1).all() and omega.sum() <= 1 and len(theta) < 64, "its strategy is not a buffered Toeplitz one")
    return np.append(1.0, sum((w * t ** np.arange(longest - 1) for t, w in zip(theta, omega, strict=True)), np.zeros(longest - 1)))

def toeplitz_squared(c: Any, lengths: list[int], d: int, most: int) -> float:
    """Squared sensitivity in clips. If c is positive and never rises, a user who comes at once and every d rounds is the worst.

    (Kalinin and Lampert 2024.) The least such sequence above |c| bounds all of |CᵀC|. If c ends before lag d, rounds d apart have
    orthogonal columns. Participations are divided among stretches between restarts in the worst way.
    """
    above, alone, best = np.maximum.accumulate(np.abs(c)[::-1])[::-1], dict[int, list[float]](), np.zeros(most + 1)
    work = sum(min(most, length // d + 1) * (length + most) for length in lengths)
    require(work <= 200_000_000, "it has too many rounds to be checked here")
    for length in lengths:
        total, grown = np.zeros(length), best.copy()
        if length not in alone:
            alone[length] = [0.0]
            for first in range(0, min(length, most * d), d):
                total[first:] += above[: length - first]
                alone[length].append(float(total @ total))
        for here, value in enumerate(alone[length]):
            np.maximum(grown[here:], best[: most + 1 - here] + value, out=grown[here:])
        best = grown
    squares, apart = np.cumsum(c**2), len(lengths) == 1 and np.flatnonzero(c)[-1] < d
    orthogonal = math.fsum(squares[len(c) - 1 - k * d] for k in range(most)) if apart else math.inf
    return min(float(best[most]), orthogonal) * (1 + 1e-12)

def tree_squared(rounds: int, d: int, most: int, restarts: list[int]) -> float:
    """The largest sum, over the nodes of the binary trees, of (participations in the node)²."""
    work = 0

    def joined(row: dict[tuple[int, int], int], height: int, place: int) -> dict[tuple[int, int], int]:
        """`row`: the most that n participations are worth with the last in round `end` or before. A block is added at `place`."""
        nonlocal work
        found, kept, best = dict[tuple[int, int], int](), dict[tuple[int, int], int](), dict[int, int]()
        for (n, end), v in row.items():
            right = ways(height, max(end + d - place, 0))
            work += len(right)
            require(work <= 5_000_000, "its tree leaves too many ways to take part to check them all")
            for (m, stop), w in right.items():
                key = n + m, max(place + stop, place + (1 << height) - d)
                if n + m <= most and found.get(key, -1) < v + w:
                    found[key] = v + w
        for (n, end), v in sorted(found.items()):
            if v > best.get(n, -1):
                kept[n, end] = best[n] = v
        return kept

    @cache
    def ways(height: int, start: int) -> dict[tuple[int, int], int]:
        """In a block of 2^height rounds, from round `start` of it on. With n = 0 the last was d rounds before the start."""
        if height == 0:
            return {(0, start - d): 0} | ({(1, 0): 1} if start == 0 else {})
        halves = joined(ways(height - 1, start), height - 1, 1 << (height - 1))
        return {(n, end): v + n * n for (n, end), v in halves.items()}

    row, place = {(0, -d): 0}, 0
    for stop in [*restarts, rounds]:
        while place < stop:
            height = (stop - place).bit_length() - 1
            row, place = joined(row, height, place), place + (1 << height)
    return float(max(row.values()))

def coins(c: list[float], bands: int, rounds: list[int], restarts: list[int]) -> dict[float, int]:
    """Cyclic sampling: how often a user's coin shows with which norm, rounded up; it shows in every row that contains its round.

    The row of an attempt contains the attempts at rounds t, t - 1, ... that it was built on, back to a restart or the band's end.
    """
    require(len(rounds) * len(c) <= 3_000_000 and bands <= 10**5, "it has too many rounds to be checked here")
    path, shown, table = dict[int, int](), [0.0] * len(rounds), [list[float]() for _ in range(bands)]
    for place, round in enumerate(rounds):
        path[round] = place
        for lag, each in enumerate(c):
            shown[path[round - lag]] += each * each
            if round - lag in (0, *restarts):
                break
    for square, round in sorted(zip(shown, rounds, strict=True), reverse=True):
        table[round % bands].append(square)
    found = Counter(math.exp(math.ceil(math.log(max(each)) * 1e4) / 2e4) for each in zip_longest(*table, fillvalue=1e-9))
    require(len(found) <= 100, "its noise is of too many kinds to be checked here")
    return found

def gaussian_epsilon(mu: float, delta: float) -> float:
    """Of one Gaussian whose means are mu deviations apart: delta = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    for _ in range(200 if mu > 0 else 0):
        middle = (low + high) / 2
        excess = special.ndtr(mu / 2 - middle / mu) - math.exp(min(middle + special.log_ndtr(-mu / 2 - middle / mu), 0.0))
        low, high = (middle, high) if excess > delta else (low, middle)
    return high * (1 + 1e-9) + 1e-9

def normal_mass(x: Any) -> Any:
    """Of N(0, 1) between neighbours in x, with a small relative error also where they are close."""
    left, right = x[:-1], x[1:]
    width, middle, t = right - left, (left + right) / 2, math.sqrt(0.15)
    near = sum(w * np.exp(-((middle + place * width) ** 2) / 2) for place, w in ((-t, 5), (0, 8), (t, 5)))
    far = np.where(left > 0, special.ndtr(-left) - special.ndtr(-right), special.ndtr(right) - special.ndtr(left))
    return np.where(width < 0.02, near * width / (18 * math.sqrt(2 * math.pi)), far)

class Round:
    """Sampled Gaussian rounds: A = N(0, 1), B = N(μ, 1), M = (1 - q) A + q B; the loss log M/A rises with x.

    `order` 0: M against A. 1: A against M. 2, fixed size: M against A where the loss is positive, its mirror image, and an atom.
    """

    def __init__(self, order: int, q: float, z: float, count: int, reach: float) -> None:
        self.order, self.q, self.count, self.mu = order, q, count, (2 if order == 2 else 1) / z
        self.ends = self.mu / 2 if order == 2 else -reach, self.mu + reach
        self.atom = (1 - q) * (1 - 2 * special.ndtr(-self.mu / 2)) if order == 2 else 0.0

    def loss(self, x: Any) -> Any:
        return np.logaddexp(np.log1p(-self.q), math.log(self.q) + self.mu * (x - self.mu / 2))

    def sketch(self, first: float, last: float, points: int = 4001) -> tuple[Any, Any]:
        """Losses and the logarithms of their masses, by the trapezoidal rule."""
        x = np.linspace(first, last, points)
        a, loss = -x * x / 2 + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi)), self.loss(x)
        if self.order < 2:
            return (loss, a + loss) if self.order == 0 else (-loss, a)
        return np.concatenate([loss, -loss, [0.0]]), np.concatenate([a + loss, a, np.log([self.atom])])

    def masses(self, h: float) -> tuple[int, Any, float]:
        """The first point of the grid of losses, the masses on it, and that of an infinite loss."""

        def split(p: Any, r: Any, left: Any) -> Any:
            """Cells with the masses p of the first law and r of the second, divided so that both keep theirs."""
            right = np.clip((p - r * np.exp(np.minimum(left, 700))) / -math.expm1(-h) + p * (1e-13 / h), 0, p)
            return np.append(p - right, 0) + np.append(0, right)

        first, last = math.floor(self.loss(self.ends[0]) / h), math.ceil(self.loss(self.ends[1]) / h)
        grid = h * np.arange(0 if self.order == 2 else first, last + 1)
        inside = np.where(grid < -0.5, np.exp(grid) - (1 - self.q), np.expm1(grid) + self.q) / self.q
        x = np.log(np.maximum(inside, 0.0)) / self.mu + self.mu / 2
        a, b, beyond = normal_mass(x), normal_mass(x - self.mu), special.ndtr(-x[-1])
        m, infinite = (1 - self.q) * a + self.q * b, (1 - self.q) * beyond + self.q * special.ndtr(self.mu - x[-1])
        up, down = split(m, a, grid[:-1]), split(a[::-1], m[::-1], -grid[:0:-1])
        down[0] += beyond
        if self.order == 0:
            up[0] += (1 - self.q) * special.ndtr(x[0]) + self.q * special.ndtr(x[0] - self.mu)
            return first, up, infinite
        if self.order == 1:
            return -last, down, special.ndtr(x[0])
        down[-1] += up[0] + self.atom
        return -last, np.append(down, up[1:]), infinite

def composed_epsilon(rounds: list[Round], delta: float) -> float:
    """The least epsilon, rounded up, at which all these rounds together are (epsilon, delta)-private in their order."""
    total, tilts, mean, variance = sum(each.count for each in rounds), np.geomspace(0.02, 2e4, 150), 0.0, 0.0
    sketches = [(each.count, *each.sketch(*each.ends)) for each in rounds]
    logs = sum(n * special.logsumexp(mass + tilts[:, None] * loss, axis=1) for n, loss, mass in sketches)
    bounds = (logs - math.log(delta) + tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)) / tilts
    tilt, near = float(tilts[np.argmin(bounds)]), max(1.0, float(bounds.min()))
    for n, loss, mass in sketches:
        weight = special.softmax(mass + tilt * loss)
        mean, variance = mean + n * float(weight @ loss), variance + n * float(weight @ (loss - weight @ loss) ** 2)
    # Splitting adds at most h²/4 to the variance of a round's loss, and so about (1 + tilt) h²/8 a round to epsilon.
    longest = max(abs(float(each.loss(end))) for each in rounds for end in each.ends)
    h = min(math.sqrt(1e-4 * near / ((1 + tilt) * total)), 0.02 / (1 + tilt))
    h = max(h, longest / 2**20, 16 * math.sqrt(variance) / 2**20)
    steeper, seldom = float(tilts[np.argmin((logs - math.log(delta * 1e-6)) / tilts)]), math.log(delta * 1e-6)
    infinite, log_total, log_tail, bottom, top, tilted = 0.0, 0.0, 0.0, 0, 0, list[Any]()
    for each in rounds:
        first, masses, beyond = each.masses(h)
        here, losses = np.log(masses), h * (first + np.arange(len(masses)))
        log_one = float(special.logsumexp(here + tilt * losses))
        tilted.append((each.count, first, np.exp(here + tilt * losses - log_one)))
        infinite, log_total = infinite + each.count * float(beyond), log_total + each.count * log_one
        log_tail += each.count * float(special.logsumexp(here + steeper * losses))
        bottom, top = bottom + each.count * first, top + each.count * (first + len(masses))
    low = max(bottom, math.floor((mean - 9 * math.sqrt(variance + total * h * h / 4)) / h))
    start = max(low, 0)
    # Beyond `stop` there is at most delta · 1e-6 (Chernoff), which counts as an infinite loss. What lies beyond the circle of the
    # FFT comes in again at `low`, where it can only make epsilon larger.
    stop, rest = max(start, min(top, math.ceil((log_tail - seldom) / steeper / h))), delta * (1 - 1e-6) - infinite
    more = tilts > tilt
    around = np.min((logs[more] - seldom - tilt * h * start) / (tilts[more] - tilt), initial=math.inf) / h
    size = fft.next_fast_len(int(max(stop, min(top, around)) - low) + 2, real=True)
    if rest <= 0 or size > 2**23 or (stop - start) * h > 600:  # Chernoff's bound serves
        return math.inf if infinite >= delta else (log_total - math.log(delta - infinite)) / tilt
    transform = np.ones(size // 2 + 1, complex)
    for n, first, weight in tilted:
        transform *= fft.rfft(np.bincount((first + np.arange(len(weight))) % size, weight, size)) ** n
    points, away = np.arange(start, stop + 1), h * np.arange(stop - start + 1)
    # A number of a transform is off by less than 1e-14, so one of a product of `total` of them by no more than this.
    values = (np.maximum(fft.irfft(transform, size)[points % size], 0) + (total + 10) * 1e-14) * np.exp(-tilt * away)
    # Above a loss: Σ values and Σ values e^-loss. Delta at epsilon is the one less e^epsilon times the other.
    one, other = np.cumsum(values[::-1])[::-1], np.cumsum((values * np.exp(-away))[::-1])[::-1]
    goal = math.exp(min(math.log(rest) - log_total + tilt * h * start, 700))
    k = int(np.append(np.flatnonzero(one - np.exp(away) * other <= goal), len(points) - 1)[0])
    exact = math.log(max(float(one[k]) - goal, 1e-300) / float(other[k]))
    return h * start + (0.0 if k == 0 else min(max(exact, float(away[k - 1])), float(away[k]))) + 1e-9

def odometer_epsilon(rounds: Round, rho: float, delta: float) -> float:
    """Of releases chosen by looking at earlier ones: least ε with (1 - e^(ε - L))₊ ≤ δ Σ w e^((order - 1)(L - S)) for every L.

    S is the sum of Rényi divergences at the order, larger for a Poisson round in the order 0 (Mironov, Talwar, Zhang 2019). Orders
    and weights w were settled before: they depend on delta alone. The sum is a supermartingale.
    """
    targets = np.geomspace(0.05, 200.0, 80)
    orders = np.minimum(1 + 2 * math.log(1 / delta) / targets, 1000.0)
    orders, place = np.unique(np.where(orders > 8, np.ceil(orders), orders), return_inverse=True)
    weights, spent = np.bincount(place, 1 / (1 + (np.log(targets / 3) / 1.5) ** 2)), orders * rho
    for k, order in enumerate(orders.tolist()):
        first, last = rounds.ends[0] if rounds.order == 2 else -12.0, order * rounds.mu + 12
        points = int((last - first) * max(1.0, rounds.mu) * 60)
        loss, mass = rounds.sketch(first, last, min(points, 1_000_000) + 1)
        mass[[0, len(mass) // 2 if rounds.order == 2 else 0]] -= math.log(2)  # ends of the interval count half
        once = (special.logsumexp(mass + (order - 1) * loss) - special.logsumexp(mass)) / (order - 1)
        # The bound holds without an order that is too far out.
        spent[k] += math.inf if points > 1_000_000 else rounds.count * (max(float(once), 0.0) * (1 + 1e-8) + 1e-13)
    logs, slopes, spent = (each[np.isfinite(spent)] for each in (np.log(weights / weights.sum()), orders - 1, spent))
    excess = np.append(0.0, np.geomspace(1e-5, 40.0, 1500))  # of L over ε; between two points both sides are bounded
    left = np.log(-np.expm1(-np.append(excess[1:], math.inf))) - math.log(delta)
    low, high = 0.0, float(np.min((spent - (math.log(delta) + logs) / slopes), initial=math.inf))
    for _ in range(60 if math.isfinite(high) else 0):
        middle = (low + high) / 2
        right = special.logsumexp(logs + slopes * (excess[:, None] + middle - spent), axis=1)
        low, high = (low, middle) if (left <= right).all() else (middle, high)
    return high

def epsilon_of(opened: dict[str, Any], plan: dict[str, Any], intents: list[dict[str, Any]], given: Any) -> tuple[float, float]:
    """Epsilon and rho (NaN with samples or a threshold) of every attempt in the ledger and of the planned rounds to come."""
    mechanism, planned, restarts, words = plan["mechanism"], opened["rounds"], plan["restarts"], opened["vocabulary"]
    rounds = [each["round"] for each in intents]
    rounds += range(rounds[-1] + 1 if rounds else 0, planned)
    require(max(rounds) < planned, "rounds ran beyond those that were planned")
    order, delta, strategy = 2 if plan["sampling"] == "fixed" else 0, plan["delta"] * (1 - 1e-3), opened["strategy"]
    z, q = min([plan["noise_multiplier"], *(each["z"] for each in intents)]), plan["cohort"] / plan["population"]
    c, threshold, rho, draws, path, sampled = None, 0.0, 0.0, len(rounds), dict[int, Any](), dict[float, int]()
    require(strategy.get("strategy") == (mechanism if mechanism in CORRELATED else None), "its strategy is not that of its mechanism")
    for each in intents if strategy else ():
        path[each["round"]] = each["blocks"]
        fits = each["round"] in (0, *restarts) or each["blocks"] == path[each["round"] - 1]
        require(fits, "a bound or its noise changed without a restart of the correlated noise")
    if strategy and mechanism != "tree":
        c = column(strategy, max(b - a for a, b in pairwise([0, *restarts, planned])))
        require(np.allclose(given["coefficients"], c, 1e-9, 1e-12), "its coefficients are not those of its ledger's strategy")
    if words is not None:  # what the discovery of its words cost
        rho = whole(words["releases"], 1) * max(order, 1) / 2 / number(words["noise_multiplier"], 1e-9, 1e9) ** 2
        threshold = number(words["threshold_delta"], 0, 1)
    if mechanism == "words":
        require(q == 1, "its words were discovered on some of the users alone")
        rho, draws = rho + len(rounds) / (2 * z * z), 0
        threshold += len(rounds) * number(opened["discovery"]["threshold_delta"], 0, 1)
    elif plan["sampling"] == "cyclic_poisson":
        require(len(strategy["coefficients"]) <= plan["bands"], "its noise is correlated over more rounds than it has groups")
        q, sampled = q * plan["bands"], coins(strategy["coefficients"], plan["bands"], rounds, restarts)
    elif plan["sampling"] != "check_in":
        sampled = {1.0: len(rounds)}
    else:
        for length, often in Counter(a + 1 for a, b in pairwise([*rounds, -1]) if b <= a).items():  # each way that was taken
            d, before = whole(plan["min_separation"]) + 1, [each for each in restarts if each < length]
            squared = most = min(whole(plan["max_participation"], 1), -(-length // d))
            if c is not None:
                squared = toeplitz_squared(c[:length], [b - a for a, b in pairwise([0, *before, length])], d, most)
            rho += often * (tree_squared(length, d, most, before) if mechanism == "tree" else squared) / (2 * z * z)
    require(threshold < delta, "the threshold of its discovery of words takes all of delta")
    delta, epsilon = delta - threshold, 0.0
    reach = min(-float(special.ndtri(delta * 1e-7 / (len(rounds) + 1))), 36.0)
    if opened["extended_from"]:
        require(sampled and mechanism == "gaussian", "it was extended, which is proven for sampled Gaussian rounds alone")
        epsilon = odometer_epsilon(Round(order, q, z, len(rounds), reach), rho, delta)
    elif not sampled or (q == 1 and order == 0):
        epsilon = gaussian_epsilon(math.sqrt(2 * rho + sum(n * norm**2 for norm, n in sampled.items()) / z**2), delta)
    else:
        for which in (2,) if order else (0, 1):
            pieces = [Round(which, q, z / norm, n, reach) for norm, n in sampled.items()]
            pieces += [Round(min(which, 1), 1.0, 1 / math.sqrt(2 * rho), 1, reach)] if rho > 0 else []
            epsilon = max(epsilon, composed_epsilon(pieces, delta))
    epsilon -= math.log1p(-threshold)
    tail = draws * 2.0**-178 * (whole(opened["release"]["coordinates"], 1, 10**15) + whole(opened["release"]["arrays"], 1, 10**15))
    covered = epsilon < 700 and (1 + math.exp(epsilon)) * tail <= plan["delta"] * 1e-3
    require(covered, "no finite epsilon was found for which delta covers the noise's outermost tail")
    return epsilon, math.nan if sampled or threshold else rho

def require_model(path: str, certificate: dict[str, Any]) -> None:
    """The file is one that the certificate names, or safetensors with the released model's numbers."""
    data, arrays = memoryview(np.memmap(path, np.uint8, "r")), hashlib.sha256()
    if hashlib.sha256(data).hexdigest() in certificate["files"].values():
        return
    why = "the model is no file that it names (tacit certify --export), nor safetensors with the numbers of its model"
    start = 8 + int.from_bytes(data[:8], "little")
    require(start < 1 << 26 and path.endswith(".safetensors"), why)
    header = json.loads(bytes(data[8:start]))
    for name in sorted(header.keys() - {"__metadata__"}):
        begin, end = (whole(each, 0, len(data) - start) for each in header[name]["data_offsets"])
        kind = header[name]["dtype"].replace("F", "float").replace("I", "int").replace("U", "uint").lower()
        arrays.update(f"{name}\0{kind}\0{','.join(map(str, header[name]['shape']))}\0".encode() + data[start + begin : start + end])
    require(arrays.hexdigest() == certificate["model"]["arrays"], why)

def check(data: bytes, key: str | None, heads: list[str], witness: str | None, model: str | None) -> list[str]:
    """The lines of the answer; NotProved, or an error of Python's, if something is amiss."""
    require(len(data) <= MOST_BYTES, f"the file is longer than {MOST_BYTES >> 20} MiB")
    certificate = json.loads(data)
    require(canonical(certificate) + b"\n" == data, "it is not whole, or not in canonical JSON")
    signature, own, lines = base64.b64decode(certificate.pop("signature")), public_key(certificate["key"]), certificate["ledger"]
    require(key is None or public_key(key) == own, "it is signed with another key than the one that was given")
    unchanged = signed(own[3], signature, b"tacit certificate v1\0" + canonical(certificate))
    require(unchanged and certificate["certificate"] == 1, "it was changed after it was signed, or has another format")
    origin, leaves = f"tacit/run/{certificate['run']}", [hashlib.sha256(b"\0" + line.encode()).digest() for line in lines]
    size = size_of("its own head", certificate["head"], [own], origin, leaves)
    require(own[0] == origin and own[2] == 1 and size == len(leaves), "its head is older than its ledger, or its key is another's")
    records = read_ledger(lines)
    opened, intents, kinds = records[0], [each for each in records if each["kind"] == "intent"], [each["kind"] for each in records]
    signers, said, seen = [public_key(opened["witness"]["key"])] if opened["witness"] else [], list[str](), 0
    require(all(each[2] == 4 for each in signers), "the ledger's witness has a key of another kind")
    for each in certificate["witnesses"]:
        seen = max(seen, size_of("the head that the witness signed", each, signers, origin, leaves))
        said.append(f"A witness ({signers[0][0]}) has signed {seen} of its {len(leaves)} records.")
    require(witness is None or ([public_key(witness)] == signers and seen), "the given witness did not sign a head of it")
    saved = max((place for place, kind in enumerate(kinds) if kind == "committed"), default=0)
    due = max((place + 1 for place in range(saved) if kinds[place] == "intent"), default=1)
    late = signers and opened["witness"]["required"] and seen < due
    require(not late, "the witness that its ledger requires has not signed all rounds that were saved")
    said += [f"It continues the given head of {size_of('the given head', each, [own, *signers], origin, leaves)} records." for each in heads]
    released, last = certificate["model"] or {"round": 0, "checkpoint": None}, records[saved]
    same = released["checkpoint"] == last.get("checkpoint") and released["round"] == last.get("rounds_done", 0)
    require(opened["run_id"] == certificate["run"] and same, "its run or its model is not the one in its ledger")
    if model is not None:
        require_model(model, certificate)
        said.append(f"The given file is its model, that after {released['round']} rounds.")
    plan, stated, ran = require_plan(opened, intents), certificate["statement"], len({each["round"] for each in intents})
    epsilon, rho = epsilon_of(opened, plan, intents, certificate["strategy"])
    facts = {name: opened[name] for name in ("run_id", "mechanism", "unit", "adjacency")} | {"sampling": plan["sampling"]}
    facts |= {"delta": plan["delta"], "rounds_planned": opened["rounds"], "rounds_run": ran, "releases": len(intents)}
    facts |= {"ledger_head": json.loads(lines[-1])["digest"]}
    require({**stated, **facts} == stated, "its statement is not about its ledger")
    require(stated["epsilon"] is not None, "it claims no finite epsilon itself")
    claimed, proved = number(stated["epsilon"], 0, 1e300), f"{math.ceil(epsilon * 1000) / 1000:.3f}"
    enough = claimed >= epsilon * (1 - 1e-3) - 1e-3 and (math.isnan(rho) or number(stated["rho"], 0, 1e300) >= rho * (1 - 1e-6))
    require(enough, f"it states ε = {claimed:.6g}, and its ledger is charged ε = {proved}")
    return [
        f"Proved: ε ≤ {proved} at δ = {plan['delta']:g} for all the data of any one user ({opened['adjacency']}).",
        f"It states ε = {claimed:.6g}. {opened['rounds']} rounds were planned, {ran} have run, and {len(intents) - ran} ran again.",
        *said,
        "It is signed with the given key." if key else "Whose key signed it you have to know: give the key that you know with --key.",
        "Assumed: what its ledger says of noise, clips and users was done; no other run read these users; samples stayed secret.",
    ]

def answer(arguments: list[str]) -> tuple[int, str]:
    """The exit code and the text, whatever is in the files."""
    parser = argparse.ArgumentParser(description="Checks the certificate of a Tacit run, without Tacit.")
    parser.add_argument("certificate", help="the file that 'tacit certify' wrote")
    parser.add_argument("--key", help="the public key of the run's log, as you know it (name+id+key)")
    parser.add_argument("--head", action="append", default=[], help="a file with a signed head that you have kept; may be repeated")
    parser.add_argument("--witness", metavar="KEY", help="the public key of the witness that must have signed")
    parser.add_argument("--model", help="a file that is to be the released model")
    given = parser.parse_args(arguments)
    try:
        files = []
        for path in (given.certificate, *given.head):
            with open(path, "rb") as file:
                files.append(file.read(MOST_BYTES + 1))
        with np.errstate(all="ignore"):
            lines = check(files[0], given.key, [each.decode() for each in files[1:]], given.witness, given.model)
        return 0, "\n  ".join("".join(filter(str.isprintable, line)) for line in lines)
    except NotProved as reason:
        why = str(reason)
    except OSError as error:
        why = f"a file cannot be read ({error.strerror})"
    except Exception as error:
        why = f"something in a file is not as it has to be ({type(error).__name__})"
    return 1, "".join(filter(str.isprintable, f"Not proved, because {why}."))

if __name__ == "__main__":
    code, text = answer(sys.argv[1:])
    print(text)
    sys.exit(code)
