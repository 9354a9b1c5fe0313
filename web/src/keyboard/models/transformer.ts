// The transformer of tacit/models/transformer.py, one token at a time: keys and values of earlier tokens are kept.

import type { Tensor } from "../safetensors";
import { ModelProblem } from "../safetensors";
import { logSoftmax, product, scores } from "./arithmetic";
import type { Stepwise } from "./stepwise";

export interface TransformerShape {
  readonly heads: number;
  readonly longest?: number | null;
}

interface Block {
  readonly attentionGain: Float32Array;
  readonly queries: Float32Array;
  readonly keys: Float32Array;
  readonly values: Float32Array;
  readonly attended: Float32Array;
  readonly networkGain: Float32Array;
  readonly inward: Float32Array;
  readonly inwardBias: Float32Array;
  readonly outward: Float32Array;
}

/** What one block has seen: the keys and the values of each token so far. */
interface Memory {
  readonly keys: readonly Float32Array[];
  readonly values: readonly Float32Array[];
}

export interface TransformerState {
  readonly memories: readonly Memory[];
  readonly output: Float32Array;
}

export class Transformer implements Stepwise<TransformerState> {
  readonly longest?: number;
  private readonly embedding: Float32Array;
  private readonly gain: Float32Array;
  private readonly blocks: readonly Block[];
  private readonly width: number;
  private readonly heads: number;

  constructor(tensors: ReadonlyMap<string, Tensor>, shape: TransformerShape) {
    const need = (name: string): Tensor => {
      const found = tensors.get(name);
      if (!found) throw new ModelProblem(`The model's file is damaged: the array ${name} is missing.`);
      return found;
    };
    const embedding = need("model.embedding");
    this.embedding = embedding.data;
    this.width = embedding.shape[1]!;
    this.gain = need("model.gain").data;
    this.heads = shape.heads;
    this.longest = shape.longest ?? undefined;
    const blocks: Block[] = [];
    while (tensors.has(`model.blocks[${blocks.length}].queries`)) {
      const own = (name: string) => need(`model.blocks[${blocks.length}].${name}`).data;
      blocks.push({
        attentionGain: own("attention_gain"),
        queries: own("queries"),
        keys: own("keys"),
        values: own("values"),
        attended: own("attended"),
        networkGain: own("network_gain"),
        inward: own("inward"),
        inwardBias: own("inward_bias"),
        outward: own("outward"),
      });
    }
    this.blocks = blocks;
  }

  begin(): TransformerState {
    return { memories: this.blocks.map(() => ({ keys: [], values: [] })), output: new Float32Array(0) };
  }

  read(state: TransformerState, token: number): TransformerState {
    const width = this.width;
    const place = position(state.memories[0]?.keys.length ?? 0, width);
    const row = this.embedding.subarray(token * width, (token + 1) * width);
    let x: Float32Array = row.map((value, i) => value * Math.sqrt(width) + place[i]!);
    const memories = this.blocks.map((block, at): Memory => {
      const seen = normalised(x, block.attentionGain);
      const before = state.memories[at]!;
      const keys = [...before.keys, product(seen, block.keys, width)];
      const values = [...before.values, product(seen, block.values, width)];
      const mixed = attention(product(seen, block.queries, width), keys, values, this.heads);
      x = sum(x, product(mixed, block.attended, width));
      const inner = product(normalised(x, block.networkGain), block.inward, block.inwardBias.length);
      x = sum(x, product(inner.map((value, i) => gelu(value + block.inwardBias[i]!)), block.outward, width));
      return { keys, values };
    });
    return { memories, output: normalised(x, this.gain) };
  }

  logProbabilities(state: TransformerState): Float32Array {
    return logSoftmax(scores(this.embedding, state.output));
  }
}

function attention(
  query: Float32Array,
  keys: readonly Float32Array[],
  values: readonly Float32Array[],
  heads: number,
): Float32Array {
  const size = query.length / heads;
  const mixed = new Float32Array(query.length);
  for (let from = 0; from < query.length; from += size) {
    const likeness = new Float32Array(keys.length);
    keys.forEach((key, t) => {
      let dot = 0;
      for (let i = from; i < from + size; i++) dot += query[i]! * key[i]!;
      likeness[t] = dot / Math.sqrt(size);
    });
    const shares = logSoftmax(likeness).map(Math.exp);
    for (let i = from; i < from + size; i++) mixed[i] = values.reduce((total, value, t) => total + shares[t]! * value[i]!, 0);
  }
  return mixed;
}

function position(place: number, width: number): Float32Array {
  const half = Math.floor(width / 2);
  const out = new Float32Array(width);
  for (let i = 0; i < half; i++) {
    const angle = place * 10_000 ** (-i / half);
    out[i] = Math.sin(angle);
    out[half + i] = Math.cos(angle);
  }
  return out;
}

function normalised(x: Float32Array, gain: Float32Array): Float32Array {
  const square = x.reduce((total, value) => total + value * value, 0) / x.length;
  const scale = 1 / Math.sqrt(square + 1e-6);
  return x.map((value, i) => value * scale * gain[i]!);
}

function sum(a: Float32Array, b: Float32Array): Float32Array {
  return a.map((value, i) => value + b[i]!);
}

function gelu(x: number): number {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}
