// A .safetensors file: eight bytes with the length of a JSON header, the header, then the arrays.

export interface Tensor {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

export interface TensorFile {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** What is wrong with a model, in a sentence for the page. */
export class ModelProblem extends Error {}

const DAMAGED = "The model's file is damaged: it is not a safetensors file.";
const FLOATS = "F32";
const WHOLE_NUMBERS = "I32";

/** The arrays and the metadata of a file; ModelProblem if it is no such file. Whole numbers become floats: ids stay exact. */
export function readTensors(file: ArrayBuffer): TensorFile {
  if (file.byteLength < 8) throw new ModelProblem(DAMAGED);
  const length = Number(new DataView(file).getBigUint64(0, true));
  if (length > file.byteLength - 8) throw new ModelProblem(DAMAGED);
  let header: Record<string, unknown>;
  try {
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  } catch {
    throw new ModelProblem(DAMAGED);
  }
  const { __metadata__: metadata, ...described } = header;
  const tensors = new Map<string, Tensor>();
  for (const [name, about] of Object.entries(described)) tensors.set(name, readTensor(file, 8 + length, name, about));
  return { metadata: (metadata ?? {}) as Record<string, string>, tensors };
}

function readTensor(file: ArrayBuffer, start: number, name: string, about: unknown): Tensor {
  const { dtype, shape, data_offsets: offsets } = about as { dtype: string; shape: number[]; data_offsets: number[] };
  const from = start + (offsets?.[0] ?? NaN);
  const count = (shape ?? []).reduce((product, side) => product * side, 1);
  if (dtype !== FLOATS && dtype !== WHOLE_NUMBERS) {
    throw new ModelProblem(`The page computes with 32-bit numbers, and the array ${name} of this model has the type ${dtype}.`);
  }
  if (!(from + 4 * count <= file.byteLength)) throw new ModelProblem(DAMAGED);
  const bytes = file.slice(from, from + 4 * count); // a copy, because a view would have to begin at a multiple of four
  return { shape, data: dtype === FLOATS ? new Float32Array(bytes) : Float32Array.from(new Int32Array(bytes)) };
}
