"""A word model as an ONNX graph that reads one token, to be run by a keyboard after every word.

    inputs    token          int64 [batch]             the id just typed
              c, r           float [batch, ...]        the state after the tokens before it
    outputs   words          string [batch, shown]     the likeliest next words, the likeliest first
              ids            int64 [batch, shown]      their ids
              probabilities  float [batch, shown]      their probabilities among all entries, reserved ones included
              logits         float [batch, vocabulary] the score of every entry; their softmax is the model's distribution
              next_c, next_r float [batch, ...]        the state for the next token

The token `begin` starts a sentence from an empty state and ignores the state that is given with it: pass zeros of the right
shape. Reserved entries are never shown. The cell is written out in plain operators (`models.layers.cells` has its
equations), so any runtime of opset 17 can run it; values that depend on the parameters alone are computed here and stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.models.layers.cells import GATES, Cell
from tacit.models.word_lm import WordLM

INPUTS = ("token", "c", "r")
OUTPUTS = ("words", "ids", "probabilities", "logits", "next_c", "next_r")
# Old enough for the runtimes on phones: the operators of this graph have not changed since opset 13.
OPSET, IR_VERSION = 17, 8


def onnx_step(
    model: WordLM, words: Sequence[str], *, begin: int, first_word: int, shown: int, metadata: Mapping[str, str]
) -> bytes:
    """The model as an ONNX file; `words[i]` is written for the id i, ids below `first_word` are reserved.

    Needs the package onnx, a word for every id of the model, and at least `shown` words that are not reserved.
    """
    from onnx import TensorProto, checker, helper

    graph = _Graph()
    _begin_sentence(graph, model.cell, begin)
    _read(graph, model)
    _show(graph, words, first_word, shown)

    def described(name: str, kind: int, *more: int) -> Any:
        return helper.make_tensor_value_info(name, kind, ["batch", *more])

    whole, real, units, fed_back = TensorProto.INT64, TensorProto.FLOAT, model.cell.units, model.cell.fed_back_width
    read = [described("token", whole), described("c", real, units), described("r", real, fed_back)]
    written = [
        described("words", TensorProto.STRING, shown),
        described("ids", whole, shown),
        described("probabilities", real, shown),
        described("logits", real, len(words)),
        described("next_c", real, units),
        described("next_r", real, fed_back),
    ]
    made = helper.make_model(
        helper.make_graph(graph.nodes, "next_word", read, written, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="tacit",
    )
    helper.set_model_props(made, dict(metadata))
    checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString(deterministic=True))


def _begin_sentence(graph: _Graph, cell: Cell, begin: int) -> None:
    begins = graph.apply("Equal", "token", graph.constant("begin", np.int64(begin)))
    begins = graph.apply("Unsqueeze", begins, graph.constant("last_axis", np.array([1], np.int64)))
    zero = graph.constant("zero", np.float32(0))
    for state in ("c", "r"):
        graph.apply("Where", begins, zero, state, out=f"{state}_before")


def _read(graph: _Graph, model: WordLM) -> None:
    """From token, c_before and r_before to next_c, next_r and logits."""
    cell = model.cell
    # If the model scales rows to norm 1, they are scaled here once and not on the phone.
    read_table = graph.constant("embedding", np.asarray(model.rows(jnp.arange(len(model.embedding)))))
    gates = [cell.gates[name] for name in GATES[cell.kind]]
    kernel = graph.constant("kernel", np.concatenate([gate.kernel for gate in gates], axis=1))
    bias = graph.constant("bias", np.concatenate([gate.bias for gate in gates]))
    seen = graph.apply("Concat", graph.apply("Gather", read_table, "token"), "r_before", axis=1)
    z = graph.apply("Gemm", seen, kernel, bias)
    sizes = graph.constant("gate_sizes", np.full(len(gates), cell.units, np.int64))
    candidate, *others = graph.split(z, sizes, [f"z_{name}" for name in GATES[cell.kind]])
    g = graph.apply("Tanh", candidate)
    f, o, *coupled = [graph.apply("Sigmoid", each) for each in others]
    i = coupled[0] if coupled else graph.apply("Sub", graph.constant("one", np.float32(1)), f)
    graph.apply("Add", graph.apply("Mul", f, "c_before"), graph.apply("Mul", i, g), out="next_c")
    h = graph.apply("Mul", o, graph.apply("Tanh", "next_c"))
    outputs = h
    if cell.projection is not None:
        added = [] if cell.projection_bias is None else [graph.constant("projection_bias", cell.projection_bias)]
        outputs = graph.apply("Gemm", h, graph.constant("projection", cell.projection), *added)
    graph.apply("Identity", outputs if cell.fed_back else h, out="next_r")
    scored = read_table if model.output is None else graph.constant("output", np.asarray(model.output_table()))
    added = [] if model.output_bias is None else [graph.constant("output_bias", model.output_bias)]
    graph.apply("Gemm", outputs, scored, *added, transB=1, out="logits")


def _show(graph: _Graph, words: Sequence[str], first_word: int, shown: int) -> None:
    """From logits to words, ids and probabilities. Among equals the smaller id comes first, as in the rest of Tacit."""
    first = graph.constant("first_word", np.array([first_word], np.int64))
    end = graph.constant("end", np.array([len(words)], np.int64))
    likely = graph.apply("Slice", graph.apply("Softmax", "logits", axis=1), first, end, "last_axis")
    graph.top(likely, graph.constant("shown", np.array([shown], np.int64)), "probabilities", "rank")
    graph.apply("Add", "rank", first, out="ids")
    graph.apply("Gather", graph.constant("vocabulary", np.array(words, object)), "ids", out="words")


class _Graph:
    """A graph under construction: its nodes and constants, in order."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        array: NDArray[Any] = np.asarray(value)  # of numbers, or of objects that are text
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def apply(self, operator: str, *inputs: str, out: str | None = None, **attributes: int) -> str:
        """Add a node; returns the name of its result."""
        return self._node(operator, inputs, [out or f"{operator}_{len(self.nodes)}"], attributes)[0]

    def split(self, whole: str, sizes: str, names: list[str]) -> list[str]:
        return self._node("Split", (whole, sizes), names, {"axis": 1})

    def top(self, values: str, count: str, largest: str, where: str) -> None:
        self._node("TopK", (values, count), [largest, where], {"axis": 1})

    def _node(
        self, operator: str, inputs: Sequence[str], outputs: list[str], attributes: Mapping[str, Any]
    ) -> list[str]:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs
