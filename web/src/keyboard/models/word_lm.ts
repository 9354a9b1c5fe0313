// The recurrent word models: tacit/models/word_lm.py with the cells of tacit/models/layers/cells.py, one token at a time.

import type { Tensor } from "../safetensors";
import { ModelProblem } from "../safetensors";
import { addProduct, logSoftmax, product, scores, sigmoid, unitRows } from "./arithmetic";
import type { Stepwise } from "./stepwise";

export interface WordLMShape {
  readonly cell: "cifg" | "lstm";
  readonly fed_back: boolean;
  readonly unit_norm: boolean;
  readonly longest?: number | null;
}

interface Gate {
  readonly kernel: Float32Array; // [inputs + fed back, units]
  readonly bias: Float32Array;
}

export interface CellState {
  readonly c: Float32Array;
  readonly r: Float32Array;
  readonly output: Float32Array;
}

export class WordLM implements Stepwise<CellState> {
  readonly longest?: number;
  private readonly gates: Readonly<Record<string, Gate>>;
  private readonly embedding: Float32Array;
  private readonly table: Float32Array;
  private readonly bias?: Float32Array;
  private readonly projection?: Tensor;
  private readonly projectionBias?: Float32Array;
  private readonly units: number;
  private readonly inputs: number;
  private readonly fedBack: number;

  constructor(
    tensors: ReadonlyMap<string, Tensor>,
    private readonly shape: WordLMShape,
  ) {
    const need = (name: string): Tensor => {
      const found = tensors.get(name);
      if (!found) throw new ModelProblem(`The model's file is damaged: the array ${name} is missing.`);
      return found;
    };
    const names = ["candidate", "forget", "output", ...(shape.cell === "lstm" ? ["input"] : [])];
    const gate = (name: string): Gate => {
      const at = `model.cell.gates['${name}']`;
      return { kernel: need(`${at}.kernel`).data, bias: need(`${at}.bias`).data };
    };
    this.gates = Object.fromEntries(names.map((name) => [name, gate(name)]));
    this.longest = shape.longest ?? undefined;
    const embedding = need("model.embedding");
    this.inputs = embedding.shape[1]!;
    const normed = (table: Tensor) => (shape.unit_norm ? unitRows(table.data, table.shape[1]!) : table.data);
    this.embedding = normed(embedding);
    const output = tensors.get("model.output");
    this.table = output ? normed(output) : this.embedding;
    this.bias = tensors.get("model.output_bias")?.data;
    this.projection = tensors.get("model.cell.projection");
    this.projectionBias = tensors.get("model.cell.projection_bias")?.data;
    this.units = this.gates["forget"]!.bias.length;
    this.fedBack = this.projection && shape.fed_back ? this.projection.shape[1]! : this.units;
  }

  begin(): CellState {
    return { c: new Float32Array(this.units), r: new Float32Array(this.fedBack), output: new Float32Array(0) };
  }

  read(state: CellState, token: number): CellState {
    const x = this.embedding.subarray(token * this.inputs, (token + 1) * this.inputs);
    const z = (name: string): Float64Array => {
      const { kernel, bias } = this.gates[name]!;
      const out = Float64Array.from(bias);
      addProduct(out, x, kernel);
      addProduct(out, state.r, kernel, this.inputs);
      return out;
    };
    const [zg, zf, zo] = [z("candidate"), z("forget"), z("output")];
    const zi = this.shape.cell === "lstm" ? z("input") : undefined;
    const c = new Float32Array(this.units);
    const h = new Float32Array(this.units);
    for (let u = 0; u < this.units; u++) {
      const f = sigmoid(zf[u]!);
      const i = zi ? sigmoid(zi[u]!) : 1 - f;
      c[u] = f * state.c[u]! + i * Math.tanh(zg[u]!);
      h[u] = sigmoid(zo[u]!) * Math.tanh(c[u]!);
    }
    let output: Float32Array = h;
    if (this.projection) {
      output = product(h, this.projection.data, this.projection.shape[1]!);
      const bias = this.projectionBias;
      if (bias) output = output.map((value, j) => value + bias[j]!);
    }
    return { c, r: this.shape.fed_back ? output : h, output };
  }

  logProbabilities(state: CellState): Float32Array {
    return logSoftmax(scores(this.table, state.output, this.bias));
  }
}
