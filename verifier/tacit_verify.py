#!/usr/bin/env python3
"""Checks the certificate of a Tacit run (`tacit certify`) without Tacit: Proved (exit code 0), or Not proved, because ... (1).

    python tacit_verify.py certificate.json [--key KEY] [--head FILE] [--witness KEY] [--model FILE]

Every attempt at a round counts, and so do planned rounds to come. In sampled rounds, outcomes between two points of a grid of
losses are split at random between the points, so that both laws keep their mass: what was split tells more, so epsilon can only
grow. Masses are tilted exponentially, to put the digits where delta is decided, and added up by FFT; what that may lose is added.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import sys
from bisect import bisect
from collections import Counter
from functools import cache
from itertools import pairwise, product, zip_longest
from typing import Any

import numpy as np
from scipy import fft, special

MOST_BYTES = 1 << 26
Json = dict[str, Any]
PROVEN = {"gaussian": "poisson fixed check_in", "words": "poisson", "banded": "check_in cyclic_poisson"}
PROVEN |= {"tree": "check_in", "blt": "check_in"}
ADJACENCY = {"fixed": "replace one user", "check_in": "zero out one user"}
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493  # edwards25519: the field, the order of the base point
D = -121665 * pow(121666, -1, P) % P
BASE = 15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, P) % P

class NotProved(Exception):
    """Why, as a clause without a full stop."""
def require(holds: Any, why: str) -> None:
    if not holds:
        raise NotProved(why)

def number(value: Any, low: float, high: float, kinds: Any = (int, float)) -> Any:
    require(type(value) in kinds and low <= value <= high, f"one of its numbers is not one from {low:g} to {high:g}")
    return value
def whole(value: Any, low: int = 0, high: int = 2_000_000) -> int:
    return int(number(value, low, high, (int,)))
def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
def signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether this is an Ed25519 signature of the message."""
    def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        (x, y), (X, Y), k = one, other, D * one[0] * other[0] * one[1] * other[1] % P
        inverse = pow((1 + k) * (1 - k), -1, P)
        return (x * Y + y * X) * (1 - k) * inverse % P, (y * Y + x * X) * (1 + k) * inverse % P
    y, s = int.from_bytes(key, "little") & (2**255 - 1), int.from_bytes(signature[32:], "little")
    u, v = y * y - 1, D * y * y + 1
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    x = x if (v * x * x - u) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    if (len(key), len(signature)) != (32, 64) or s >= ORDER or y >= P or (v * x * x - u) % P or x == 0:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    less, found = (P - x if x & 1 == key[31] >> 7 else x, y), (0, 1)
    for bit in reversed(range(253)):  # s times the base point, less k times the key
        found = add(found, found)
        found = add(found, BASE) if s >> bit & 1 else found
        found = add(found, less) if k >> bit & 1 else found
    return (found[1] | (found[0] & 1) << 255).to_bytes(32, "little") == signature[:32]

def tree_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, level by level: the last node of an odd level goes up as it is."""
    while len(leaves) > 1:
        nodes = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(leaves[::2], leaves[1::2], strict=False)]
        leaves = nodes + leaves[len(leaves) & ~1 :]
    return leaves[0] if leaves else hashlib.sha256(b"").digest()

def public_key(text: str) -> tuple[str, bytes, int, bytes]:
    """Name, id, type (1: of a log, 4: of a witness) and key of 'name+id+base64'."""
    name, shown, packed = [*text.strip().split("+", 2), "", ""][:3]
    typed = base64.b64decode(packed)
    identity = hashlib.sha256(name.encode() + b"\n" + typed).digest()[:4]
    require(len(typed) == 33 and typed[0] in (1, 4) and identity.hex() == shown, "a public key is not whole (name+id+key)")
    return name, identity, typed[0], typed[1:]

def size_of(which: str, head: str, keys: list[Any], origin: str, leaves: list[bytes]) -> int:
    """How many records the signed head (C2SP's tlog-checkpoint) has. One of the keys signed it, and the ledger begins with them."""
    body, _, below = head.partition("\n\n")
    (name, size, root), by = body.split("\n")[:3], False
    for line, (signer, identity, kind, key) in product(below.split("\n")[:16], keys):
        content = base64.b64decode(line.rpartition(" ")[2]) if line.startswith(f"— {signer} ") else b""
        time = f"cosignature/v1\ntime {int.from_bytes(content[4:12], 'big')}\n" if kind == 4 else ""
        by = by or (content[:4] == identity and signed(key, content[12 if time else 4 :], f"{time}{body}\n".encode()))
    require(by and name == origin, f"{which} is not signed with a key of this run, or is one of another run")
    why = f"{which} has {size} records and its ledger {len(leaves)}: it is older than the head, or its end was cut off"
    require(size.isdecimal() and int(size) <= len(leaves), why)
    why = f"its first {size} records are not those of {which}: they were changed or exchanged"
    require(tree_root(leaves[: int(size)]) == base64.b64decode(root), why)
    return int(size)

def read_ledger(lines: list[str]) -> list[Json]:
    """The records, each of which may follow the one before. The first gets what is planned last and the round that comes next."""
    records, attempts, live, previous, following, closed = list[Json](), Counter[int](), dict[int, int](), "0" * 64, 0, ""
    for place, line in enumerate(lines):
        where, record = f"record {place} of its ledger", json.loads(line)
        require(canonical(record).decode() == line, f"{where} is not in canonical JSON")
        digest, kind = record.pop("digest", None), record["kind"]
        require(digest == hashlib.sha256(canonical(record)).hexdigest(), f"{where} was changed: its digest does not fit")
        chained = (record.pop("seq", None), record.pop("previous", None)) == (place, previous)
        require(chained, f"{where} does not follow the one before: a record was cut out, moved or exchanged")
        previous, round, then = digest, record.get("round", following), {"stopped": "resumed", "finished": "extended"}
        fits = (kind == "opened") == (not place) and whole(round) == round <= following and (not closed or kind == then.get(closed))
        if kind == "opened":
            fits = fits and len(record) == 30 and whole(record["rounds"]) > 0 and record["format"] == 7
        elif kind == "intent":
            fits = fits and len(record) == 8 and round in (following, following - 1) and record["attempt"] == attempts[round]
            attempts[round], live[round], following = attempts[round] + 1, record["attempt"], round + 1
        elif kind == "committed":
            fits = fits and whole(record["rounds_done"]) <= following
        elif kind == "resumed":
            fits, following, closed = fits and record["lost"] == [[n, live[n]] for n in range(round, following)], round, ""
        elif kind == "extended":
            fits, closed = fits and closed == "finished" and whole(record["rounds"]) > records[0]["rounds"], ""
            records[0] |= {"rounds": record["rounds"], "extended": True}
        else:
            fits, closed = fits and round == following and kind in ("adjusted", "closed"), record.get("outcome", "")
        require(fits, f"{where} says what cannot come next, or is of a format that is not known here")
        records.append(record)
    return [records[0] | {"next": following}, *records[1:]]

def require_plan(opened: Json, intents: list[Json]) -> Json:
    """The plan, whose kind is proven here and which every intent follows; an intent gets its noise multiplier as a whole."""
    plan, mechanism, sums, sampling = opened["plan"], opened["mechanism"], opened["secure_sum"], opened["plan"]["sampling"]
    secagg, restarts, bands, cohort = plan["secagg"], plan["restarts"], plan["bands"] or 1, number(plan["cohort"], 1e-9, 1e12)
    population, cyclic = whole(plan["population"], 1, 10**12), sampling == "cyclic_poisson"
    said = [opened[name] for name in ("mechanism", "population", "adjacency", "unit")]
    stated = [plan["mechanism"], population, ADJACENCY.get(sampling, "add or remove one user"), "user"]
    sized = not sums or 2 ** whole(sums["bits"], 2, 32) > 2 * cohort * whole(sums["element_clip"], 1, 2**31)
    sized = sized and (not sums or [secagg["bits"], secagg["scheme"], sampling in ADJACENCY] == [sums["bits"], "server_noise", 1])
    for holds, why in (
        (len(plan) == 21 and (plan["bands"] is not None) == cyclic, "its plan has a format that is not known here"),
        (not opened["outside"] and plan["participation"] is None and ":" not in mechanism, "it rests on an outside author's claim"),
        (opened["seeded"] is False, "its noise was made from a seed and can be replayed"),
        (opened["reasons_not_private"] == [], "its ledger itself gives reasons why no privacy may be claimed"),
        (sampling in PROVEN.get(mechanism, "").split(), f"nothing is proven here for the mechanism {mechanism} with its sampling"),
        (said == stated and number(plan["delta"], 1e-300, 1 / population) <= 0.5, "its first record contradicts its plan"),
        (cohort == population if mechanism == "words" else cohort <= min(population, 1e5), "its cohort is larger than is proven"),
        (all(a < b for a, b in pairwise([0, *map(whole, restarts), opened["rounds"]])), "its restarts are not those of a plan"),
        ((secagg is None) == (sums is None) and sized, "its secure sums may wrap around, or are not the plan's"),
    ):
        require(holds, why)
    clips = {0: plan["clip_norm"]} | {whole(each["round"]): each["clip_norm"] for each in plan["clip_schedule"]}
    z, q, starts, begins = number(plan["noise_multiplier"], 1e-6, 1e6), cohort / population, sorted(clips), set(restarts)
    law = {"kind": sampling, "size": int(cohort), "population": population}
    if sampling == "check_in":
        law = {"kind": sampling, "size": int(cohort)} | {name: plan[name] for name in ("min_separation", "max_participation")}
    elif sampling != "fixed":
        law = {"kind": sampling, "probability": bands * cohort / population} | ({"groups": bands} if cyclic else {})
    widened = 1.0 if not sums else math.sqrt(whole(sums["norm_limit_squared"], 1, 10**30)) / sums["scale"] * (1 + 2.0**-20)
    beside = ({"weight": 1.0} if plan["estimator"] == "clipped" else {}) | ({"within": 0.5} if plan["adaptive"] else {})
    for intent in intents:
        round, blocks = intent["round"], intent["blocks"]
        bounds = {name: number(each["bound"], 1e-300, 1e300) for name, each in blocks.items()}
        intent["z"] = math.fsum(number(each["noise_multiplier"], 1e-9, 1e300) ** -2 for each in blocks.values()) ** -0.5
        clip = bounds["update"] if plan["adaptive"] else clips[starts[bisect(starts, round) - 1]] * widened
        law_of = {"sampling": law, "denominator": q * (plan["total_weight"] or population), "restart": round in begins}
        wrong = [n for n in law_of if intent[n] != law_of[n]] + ["noise"] * (not math.isclose(intent["z"], z, rel_tol=1e-9))
        wrong += [] if math.isclose(bounds.pop("update"), clip, rel_tol=1e-12) and bounds == beside else ["bound"]
        require(not wrong, f"round {round}, attempt {intent['attempt']}, had another {' and '.join(wrong)} than the plan says")
    return dict(plan)

def column(strategy: Json, longest: int) -> Any:
    """The first column c of a Toeplitz strategy C[t, s] = c_(t-s), over a stretch of so many rounds."""
    require(longest <= min(whole(strategy["horizon"], 1), 10**6), "its strategy was made for fewer rounds without a restart")
    if strategy["strategy"] == "banded":
        c = np.array([number(each, -1e9, 1e9) for each in strategy["coefficients"]], float)
        require(c[0] == 1, "the first coefficient of its strategy is not 1")
        return np.append(c, np.zeros(max(0, longest - len(c))))[:longest]
    theta, omega = (np.array([number(each, 0, 1) for each in strategy[name]]) for name in ("theta", "omega"))
    require((theta < 1).all() and omega.sum() <= 1 and len(theta) < 64, "its strategy is not a buffered Toeplitz one")
    return np.append(1.0, np.einsum("i,it->t", omega, theta[:, None] ** np.arange(longest - 1)))

def toeplitz_squared(c: Any, lengths: list[int], d: int, most: int) -> float:
    """Squared sensitivity in clips. If c is positive and never rises, a user who comes at once and every d rounds is the worst
    (Kalinin, Lampert 2024). The least such sequence above |c| bounds |CᵀC|. If c ends before lag d, columns are orthogonal."""
    above, best = np.maximum.accumulate(np.abs(c)[::-1])[::-1], np.zeros(most + 1)
    require(sum((length + most) * (length // d + 1) for length in lengths) <= 2e8, "it has too many rounds to be checked here")
    for length in lengths:  # the worst way to divide participations among stretches between restarts
        total, before, best = np.zeros(length), best, best.copy()
        for here, first in enumerate(range(0, min(length, most * d), d), 1):
            total[first:] += above[: length - first]
            np.maximum(best[here:], before[: most + 1 - here] + float(total @ total), out=best[here:])
    squares, apart = np.cumsum(c**2), len(lengths) == 1 and np.flatnonzero(c)[-1] < d
    orthogonal = math.fsum(squares[len(c) - 1 - k * d] for k in range(most)) if apart else math.inf
    return min(float(best[most]), orthogonal) * (1 + 1e-12)

def tree_squared(rounds: int, d: int, most: int, restarts: list[int]) -> float:
    """The largest sum, over the nodes of the binary trees, of (participations in the node)²."""
    work = 0
    def joined(row: Any, height: int, place: int) -> Any:
        """By n and `end`: the most that n participations are worth, the last in round `end` at most. A block begins at `place`."""
        nonlocal work
        found, kept, best = dict[Any, int](), dict[Any, int](), dict[int, int]()
        for (n, end), v in row.items():
            right = ways(height, max(end + d - place, 0))
            work += len(right)
            require(work <= 3_000_000, "its tree leaves too many ways to take part to check them all")
            for (m, stop), w in right.items():
                if n + m <= most:
                    key = n + m, max(place + stop, place + (1 << height) - d)
                    found[key] = max(found.get(key, 0), v + w)
        for (n, end), v in sorted(found.items()):
            if v > best.get(n, -1):
                kept[n, end] = best[n] = v
        return kept
    @cache
    def ways(height: int, start: int) -> Any:
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
    """Cyclic sampling: how often a user's coin shows with which norm, rounded up. It shows in every row that contains its round:
    the attempts at round t and after it that were built on it, up to a restart or the band's end."""
    require(len(rounds) * len(c) <= 3_000_000 and bands <= 10**5, "it has too many rounds to be checked here")
    path, shown, table = dict[int, int](), [0.0] * len(rounds), [list[float]() for _ in range(bands)]
    begins = np.array([0, *restarts])[np.searchsorted([0, *restarts], rounds, "right") - 1].tolist()
    for place, (round, begin) in enumerate(zip(rounds, begins, strict=True)):
        path[round] = place
        for lag in range(1 + min(len(c) - 1, round - begin)):
            shown[path[round - lag]] += c[lag] ** 2
    for square, round in sorted(zip(shown, rounds, strict=True), reverse=True):
        table[round % bands].append(square)
    found = Counter(math.exp(math.ceil(math.log(max(each)) * 1e4) / 2e4) for each in zip_longest(*table, fillvalue=1e-9))
    require(len(found) <= 100, "its noise is of too many kinds to be checked here")
    return found

def gaussian_epsilon(mu: float, delta: float) -> float:
    """Of one Gaussian whose means are mu deviations apart: delta = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    for _ in range(200 if mu > 0 else 0):
        excess = special.ndtr(mu / 2 - (m := (low + high) / 2) / mu) - math.exp(min(m + special.log_ndtr(-mu / 2 - m / mu), 0.0))
        low, high = (m, high) if excess > delta else (low, m)
    return high * (1 + 1e-9) + 1e-9

def normal_mass(x: Any) -> Any:
    """Of N(0, 1) between neighbours in x, with a small relative error also where they are close."""
    left, right, width, middle = x[:-1], x[1:], x[1:] - x[:-1], (x[:-1] + x[1:]) / 2
    near = sum(w * np.exp(-((middle + t * width) ** 2) / 2) for t, w in ((-math.sqrt(0.15), 5), (0, 8), (math.sqrt(0.15), 5)))
    far = np.where(left > 0, special.ndtr(-left) - special.ndtr(-right), special.ndtr(right) - special.ndtr(left))
    return np.where(width < 0.02, near * width / (18 * math.sqrt(2 * math.pi)), far)

class Round:
    """Sampled Gaussian rounds: A = N(0, 1), B = N(μ, 1), M = (1 - q) A + q B; the loss log M/A rises with x. `order` 0: M against
    A. 1: A against M. 2, fixed size: M against A where the loss is positive, its mirror image, and an atom."""
    def __init__(self, order: int, q: float, z: float, count: int, reach: float) -> None:
        self.order, self.q, self.count, self.mu = order, q, count, (2 if order == 2 else 1) / z
        self.ends = self.mu / 2 if order == 2 else -reach, self.mu + reach
        self.atom = (1 - q) * (1 - 2 * special.ndtr(-self.mu / 2)) if order == 2 else 0.0
    def loss(self, x: Any) -> Any:
        return np.logaddexp(np.log1p(-self.q), math.log(self.q) + self.mu * (x - self.mu / 2))

    def sketch(self, first: float, last: float, points: int = 4001) -> tuple[Any, Any]:
        x = np.linspace(first, last, points)  # losses and the logarithms of their masses, by the trapezoidal rule
        a, loss = -x * x / 2 + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi)), self.loss(x)
        a[[0, -1]] -= math.log(2)  # the ends of the interval count half
        if self.order < 2:
            return (loss, a + loss) if self.order == 0 else (-loss, a)
        return np.concatenate([loss, -loss, [0.0]]), np.concatenate([a + loss, a, np.log([self.atom])])
    def divergence(self, order: float) -> float:
        """Rényi's, of one round, rounded up: the trapezoidal rule may lose h²/12 μ φ(μ/2) < 8.2e-6 of it where order 2 begins."""
        first, last = self.ends[0] if self.order == 2 else -12.0, order * self.mu + 12
        loss, mass = self.sketch(first, last, points := min(int((last - first) * max(1.0, self.mu) * 60), 1_000_000) + 1)
        once = (special.logsumexp(mass + (order - 1) * loss) - special.logsumexp(mass)) / (order - 1)
        return math.inf if points > 1_000_000 else max(float(once), 0.0) * (1 + 1e-5) + 1e-13
    def masses(self, h: float) -> tuple[int, Any, float]:
        """The first point of the grid of losses, the masses on it, and that of an infinite loss."""
        def split(p: Any, r: Any, left: Any) -> Any:  # cells with masses p of the first law and r of the second: both keep theirs
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
    """The least ε, rounded up, at which all these rounds are (ε, δ)-private in their order: δ = Σ mass (1 - e^(ε - loss))₊."""
    total, tilts, mean, variance = sum(each.count for each in rounds), np.geomspace(0.02, 2e4, 150), 0.0, 0.0
    sketches = [(each.count, *each.sketch(*each.ends)) for each in rounds]
    logs = sum(n * special.logsumexp(mass + tilts[:, None] * loss, axis=1) for n, loss, mass in sketches)
    bounds = (logs - math.log(delta) + tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)) / tilts
    tilt, near = float(tilts[np.argmin(bounds)]), max(1.0, float(bounds.min()))
    for n, loss, mass in sketches:
        weight = special.softmax(mass + tilt * loss)
        mean, variance = mean + n * float(weight @ loss), variance + n * float(weight @ (loss - weight @ loss) ** 2)
    # Splitting adds at most h²/4 to the variance of a round's loss, and so about (1 + tilt) h²/8 a round to epsilon.
    longest = max(16 * math.sqrt(variance), *(len(rounds) * abs(float(each.loss(end))) for each in rounds for end in each.ends))
    h = max(min(math.sqrt(1e-4 * near / ((1 + tilt) * total)), 0.02 / (1 + tilt)), longest / 2**21)
    seldom, infinite, log_total, log_tail, bottom, top, tilted = math.log(delta * 1e-6), 0.0, 0.0, 0.0, 0, 0, list[Any]()
    steeper = float(tilts[np.argmin((logs - seldom) / tilts)])
    for each in rounds:
        first, masses, beyond = each.masses(h)
        here, losses = np.log(masses), h * (first + np.arange(len(masses)))
        log_one = float(special.logsumexp(here + tilt * losses))
        tilted.append((each.count, first, np.exp(here + tilt * losses - log_one)))
        infinite, log_total = infinite + each.count * float(beyond), log_total + each.count * log_one
        log_tail += each.count * float(special.logsumexp(here + steeper * losses))
        bottom, top = bottom + each.count * first, top + each.count * (first + len(masses))
    start = max(low := max(bottom, math.floor((mean - 9 * math.sqrt(variance + total * h * h / 4)) / h)), 0)
    # Beyond `stop` is at most delta · 1e-6 (Chernoff): an infinite loss. What leaves the FFT's circle comes in again and counts.
    stop, rest = max(start, min(top, math.ceil((log_tail - seldom) / steeper / h))), delta * (1 - 1e-6) - infinite
    around = np.min(((logs - seldom - tilt * h * start) / (tilts - tilt) / h)[tilts > tilt], initial=math.inf)
    size = fft.next_fast_len(int(max(stop, min(top, around)) - low) + 2, real=True)
    if rest <= 0 or size > 2**23 or (stop - start) * h > 600:  # Chernoff's bound serves
        return math.inf if infinite >= delta else (log_total - math.log(delta - infinite)) / tilt
    transform: Any = 1.0
    for n, first, weight in tilted:
        transform = transform * fft.rfft(np.bincount((first + np.arange(len(weight))) % size, weight, size)) ** n
    flat, power = np.exp(-tilt * (away := h * np.arange(stop - start + 1))), np.abs(transform)
    one = np.stack([np.maximum(fft.irfft(transform, size)[np.arange(start, stop + 1) % size], 0) * flat, flat])
    one, other = (each[:, ::-1].cumsum(1)[:, ::-1] for each in (one, one * np.exp(-away)))
    above, root = one - np.exp(away) * other, math.sqrt((power**2).mean() / (h * tilt * (2 * tilt + 1) * (2 * tilt + 2)))
    lost = (total + 10) * 1e-14 * np.minimum(power.mean() * above[1], root * flat)  # a power's error: point by point, in L2
    goal = math.exp(min(math.log(rest) - log_total + tilt * h * start, 700))
    k = int(np.append(np.flatnonzero(above[0] + lost <= goal), len(away) - 1)[0])
    exact = math.log(max(float(one[0, k] + lost[max(k - 1, 0)]) - goal, 1e-300) / max(float(other[0, k]), 1e-300))
    return h * start + (0.0 if k == 0 else min(max(exact, float(away[k - 1])), float(away[k]))) + 1e-8

def odometer_epsilon(rounds: Round, rho: float, delta: float) -> float:
    """Of releases chosen by looking at earlier ones: least ε with (1 - e^(ε - L))₊ ≤ δ Σ w e^((order - 1)(L - S)) for every L.
    S sums Rényi divergences, larger in the order 0 (Mironov, Talwar, Zhang 2019). The orders and weights w depend on δ alone."""
    orders = np.minimum(1 + 2 * math.log(1 / delta) / (targets := np.geomspace(0.05, 200.0, 80)), 1000.0)
    orders, place = np.unique(np.where(orders > 8, np.ceil(orders), orders), return_inverse=True)
    weights = np.bincount(place, 1 / (1 + (np.log(targets / 3) / 1.5) ** 2))
    spent = orders * rho + rounds.count * np.array([rounds.divergence(order) for order in orders.tolist()])
    logs, slopes, low, high = np.log(weights / weights.sum()), orders - 1, 0.0, 1e4
    excess = np.append(0.0, np.geomspace(1e-5, 40.0, 1500))  # of L over ε; between two points both sides are bounded
    left = np.log(-np.expm1(-np.append(excess[1:], math.inf))) - math.log(delta)
    for _ in range(80):
        right = special.logsumexp(logs + slopes * (excess[:, None] + (middle := (low + high) / 2) - spent), axis=1)
        low, high = (low, middle) if (left <= right).all() else (middle, high)
    return high

def epsilon_of(opened: Json, plan: Json, intents: list[Json], given: Any) -> tuple[float, float]:
    """Epsilon and rho (NaN with samples or a threshold) of every attempt in the ledger and of the planned rounds to come."""
    mechanism, planned, restarts, words = plan["mechanism"], opened["rounds"], plan["restarts"], opened["vocabulary"]
    rounds = [*(each["round"] for each in intents), *range(opened["next"], planned)]
    require(max(rounds) < planned, "rounds ran beyond those that were planned")
    order, delta, strategy = 2 if plan["sampling"] == "fixed" else 0, plan["delta"] * (1 - 1e-3), opened["strategy"]
    z, q = min([plan["noise_multiplier"], *(each["z"] for each in intents)]), plan["cohort"] / plan["population"]
    c, threshold, rho, draws, path, sampled = None, 0.0, 0.0, len(rounds), dict[int, Any](), dict[float, int]()
    fits = strategy.get("strategy") == (mechanism if mechanism in ("tree", "blt", "banded") else None)
    require(fits and (strategy or not restarts), "its strategy or its restarts are not those of its mechanism")
    for each in intents if strategy else ():
        path[each["round"]] = each["blocks"]
        require(each["restart"] or each["blocks"] == path[max(each["round"] - 1, 0)], "its clip changed without a restart")
    if strategy and mechanism != "tree":
        c = column(strategy, max(b - a for a, b in pairwise([0, *restarts, planned])))
        require(np.allclose(given["coefficients"], c, 1e-9, 1e-12), "its coefficients are not those of its ledger's strategy")
    if words:  # what the discovery of its words cost
        rho = whole(words["releases"], 1) * max(order, 1) / 2 / number(words["noise_multiplier"], 1e-9, 1e9) ** 2
        threshold = number(words["threshold_delta"], 0, 1)
    if mechanism == "words":
        rho, draws = rho + len(rounds) / (2 * z * z), 0
        threshold += len(rounds) * number(opened["discovery"]["threshold_delta"], 0, 1)
    elif plan["sampling"] == "cyclic_poisson":
        require(len(strategy["coefficients"]) <= plan["bands"], "its noise is correlated over more rounds than it has groups")
        q, sampled = number(plan["bands"] * q, 0, 1), coins(strategy["coefficients"], plan["bands"], rounds, restarts)
    elif plan["sampling"] != "check_in":
        sampled = {1.0: len(rounds)}
    else:
        ends = Counter(a + 1 for a, b in pairwise([*rounds, -1]) if b <= a)  # the lengths of the ways that were taken
        require(sum(ends) - max(ends) <= 500_000, "it has too many rounds to be checked here")
        for length, often in ends.items():
            d, before = whole(plan["min_separation"]) + 1, restarts[: bisect(restarts, length - 1)]
            squared = most = min(whole(plan["max_participation"], 1), -(-length // d))
            if c is not None:
                squared = toeplitz_squared(c[:length], [b - a for a, b in pairwise([0, *before, length])], d, most)
            rho += often * (tree_squared(length, d, most, before) if mechanism == "tree" else squared) / (2 * z * z)
    require(threshold < delta, "the threshold of its discovery of words takes all of delta")
    reach = min(-float(special.ndtri((delta := delta - threshold) * 1e-7 / (len(rounds) + 1))), 36.0)
    if "extended" in opened:
        require(sampled and mechanism == "gaussian", "it was extended, which is proven for sampled Gaussian rounds alone")
        epsilon = odometer_epsilon(Round(order, q, z, len(rounds), reach), rho, delta)
    elif not sampled or (q == 1 and order == 0):
        epsilon = gaussian_epsilon(math.sqrt(2 * rho + sum(n * norm**2 for norm, n in sampled.items()) / z**2), delta)
    else:
        beside = [Round(0, 1.0, 1 / math.sqrt(2 * rho), 1, reach)] if rho > 0 else []
        laws = [[Round(k, q, z / norm, n, reach) for norm, n in sampled.items()] for k in ((2,) if order else (0, 1))]
        epsilon = float(np.max([composed_epsilon(each + beside, delta) for each in laws]))  # NaN, if one is
    epsilon -= math.log1p(-threshold)
    tail = draws * 2.0**-178 * (whole(opened["release"]["coordinates"], 1, 10**15) + whole(opened["release"]["arrays"], 1, 10**15))
    covered = epsilon < 700 and (1 + math.exp(epsilon)) * tail <= plan["delta"] * 1e-3
    require(covered, "no finite epsilon was found at which delta covers the noise's outermost tail")
    return epsilon, math.nan if sampled or threshold else rho

def is_model(path: str, certificate: Json) -> str:
    """How the file is the released model: the certificate names it, or it is safetensors with the model's numbers."""
    data, arrays = memoryview(np.memmap(path, np.uint8, "r")), hashlib.sha256()  # type: ignore[arg-type]
    if hashlib.sha256(data).hexdigest() in certificate["files"].values():
        return "is one that it names"
    start, why = 8 + int.from_bytes(data[:8], "little"), "the model is no file that it names, nor safetensors with its numbers"
    require(start < 1 << 26 and path.endswith(".safetensors"), why)
    header = json.loads(bytes(data[8:start]))
    for name in sorted(header.keys() - {"__metadata__"}):
        begin, end = (start + whole(each, 0, len(data) - start) for each in header[name]["data_offsets"])
        kind = header[name]["dtype"].replace("F", "float").replace("I", "int").replace("U", "uint").lower()
        arrays.update(f"{name}\0{kind}\0{','.join(map(str, header[name]['shape']))}\0".encode() + data[begin:end])
    require(arrays.hexdigest() == certificate["model"]["arrays"], why)
    return "has the numbers of its model"

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
    latest = size_of("its own head", certificate["head"], [own], origin, leaves) == len(leaves)
    require(own[:3:2] == (origin, 1) and latest, "its head is older than its ledger, or its key is another's")
    records = read_ledger(lines)
    opened, intents, kinds = records[0], [each for each in records if each["kind"] == "intent"], [each["kind"] for each in records]
    signers, said, seen = [public_key(opened["witness"]["key"])] if opened["witness"] else [], list[str](), 0
    for each in certificate["witnesses"][:16]:
        seen = max(seen, size_of("the head that the witness signed", each, signers, origin, leaves))
        said.append(f"A witness ({signers[0][0]}) has signed {seen} of its {len(leaves)} records.")
    require(witness is None or ([public_key(witness)] == signers and seen), "the given witness did not sign a head of it")
    saved = max((place for place, kind in enumerate(kinds) if kind == "committed"), default=0)
    late = signers and seen < max((place + 1 for place in range(saved) if kinds[place] == "intent"), default=1)
    require(not (late and opened["witness"]["required"]), "the witness that it requires has not signed all rounds that were saved")
    for each in heads:
        said.append(f"It continues the given head of {size_of('the given head', each, [own, *signers], origin, leaves)} records.")
    released, last = certificate["model"] or {"round": 0, "checkpoint": None}, records[saved]
    same = (released["round"], released["checkpoint"]) == (last.get("rounds_done", 0), last.get("checkpoint"))
    require(opened["run_id"] == certificate["run"] and same, "its run or its model is not the one in its ledger")
    said += [] if model is None else [f"The given file {is_model(model, certificate)}, after {released['round']} rounds."]
    plan, stated, ran = require_plan(opened, intents), certificate["statement"], len({each["round"] for each in intents})
    epsilon, rho = epsilon_of(opened, plan, intents, certificate["strategy"])
    facts = {**{name: opened[name] for name in ("run_id", "mechanism", "unit", "adjacency")}, "rounds_planned": opened["rounds"]}
    facts |= {"sampling": plan["sampling"], "delta": plan["delta"], "rounds_run": ran, "releases": len(intents)}
    same = {**stated, **facts, "ledger_head": json.loads(lines[-1])["digest"]} == stated
    require(same and stated["epsilon"] is not None, "its statement is not about its ledger, or claims no finite epsilon")
    cut = ", no attempt was cut off because of what had been released" if len(intents) > ran else ""
    claimed, proved = number(stated["epsilon"], 0, 1e300), f"{math.ceil(epsilon * 1000) / 1000:.3f}"
    enough = claimed >= epsilon * (1 - 1e-3) - 1e-3 and (math.isnan(rho) or number(stated["rho"], 0, 1e300) >= rho * (1 - 1e-6))
    require(enough, f"it states ε = {claimed:.6g}, and its ledger is charged ε = {proved}")
    return [
        f"Proved: ε ≤ {proved} at δ = {plan['delta']:g} for all the data of any one user ({opened['adjacency']}).",
        f"It states ε = {claimed:.6g}. {opened['rounds']} rounds were planned, {ran} have run, and {len(intents) - ran} ran again.",
        *said, "Signed with the given key." if key else "Whose key signed it you have to know: give the one you know with --key.",
        f"Assumed: noise, clips and users were as its ledger says, samples stayed secret{cut}, and no other run read these users.",
    ]

def main(arguments: list[str]) -> int:
    """Prints the answer, whatever is in the files, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Checks the certificate of a Tacit run, without Tacit.")
    parser.add_argument("certificate", help="the file that 'tacit certify' wrote")
    parser.add_argument("--key", help="the public key of the run's log, as you know it (name+id+key)")
    parser.add_argument("--head", action="append", default=[], help="a signed head, or an older or newer certificate; repeatable")
    parser.add_argument("--witness", metavar="KEY", help="the public key of the witness that must have signed")
    parser.add_argument("--model", help="a file that is to be the released model")
    given = parser.parse_args(arguments)
    try:
        files = [np.fromfile(path, np.uint8, MOST_BYTES + 1).tobytes() for path in (given.certificate, *given.head)]
        heads = [str(json.loads(each)["head"]) if each[:1] == b"{" else each.decode() for each in files[1:]]
        with np.errstate(all="ignore"):
            lines = check(files[0], given.key, heads, given.witness, given.model)
    except Exception as error:
        other = f"something in it, or in what was given beside it, is not as it has to be ({type(error).__name__})"
        other = f"a file cannot be read ({error.strerror})" if isinstance(error, OSError) and error.strerror else other
        other = "a file was cut off, or is no JSON" if isinstance(error, json.JSONDecodeError) else other
        lines = [f"Not proved, because {error if isinstance(error, NotProved) else other}."]
    print("\n  ".join("".join(filter(str.isprintable, line)) for line in lines))
    return 0 if lines[0].startswith("Proved") else 1

if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # of a terminal without an ε
    sys.exit(main(sys.argv[1:]))
