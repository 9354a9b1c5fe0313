// Products and softmax on flat arrays. Sums are 64-bit, as numbers of the language are; results are kept in 32 bits.

/** out[j] += Σ x[i] · matrix[i, j], with a matrix of x.length rows, from row `first` on. */
export function addProduct(out: Float64Array, x: Float32Array, matrix: Float32Array, first = 0): void {
  const columns = out.length;
  for (let i = 0; i < x.length; i++) {
    const value = x[i]!;
    if (value === 0) continue;
    const row = (first + i) * columns;
    for (let j = 0; j < columns; j++) out[j]! += value * matrix[row + j]!;
  }
}

/** The product of a vector and a matrix with as many rows. */
export function product(x: Float32Array, matrix: Float32Array, columns: number): Float32Array {
  const out = new Float64Array(columns);
  addProduct(out, x, matrix);
  return Float32Array.from(out);
}

/** The scalar product of x with each row of a table. */
export function scores(table: Float32Array, x: Float32Array, bias?: Float32Array): Float32Array {
  const width = x.length;
  const out = new Float32Array(table.length / width);
  const whole = width - (width % 4);
  for (let row = 0, at = 0; row < out.length; row++, at += width) {
    // Four sums side by side: the processor need not wait for one addition to begin the next.
    let a = 0, b = 0, c = 0, d = 0;
    let i = 0;
    for (; i < whole; i += 4) {
      a += table[at + i]! * x[i]!;
      b += table[at + i + 1]! * x[i + 1]!;
      c += table[at + i + 2]! * x[i + 2]!;
      d += table[at + i + 3]! * x[i + 3]!;
    }
    for (; i < width; i++) a += table[at + i]! * x[i]!;
    out[row] = a + b + c + d + (bias ? bias[row]! : 0);
  }
  return out;
}

/** Log softmax, in place. */
export function logSoftmax(logits: Float32Array): Float32Array {
  let largest = -Infinity;
  for (let i = 0; i < logits.length; i++) if (logits[i]! > largest) largest = logits[i]!;
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i]! - largest);
  const shift = largest + Math.log(sum);
  for (let i = 0; i < logits.length; i++) logits[i] = logits[i]! - shift;
  return logits;
}

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** Rows scaled to norm 1, as `unit` in tacit/models/word_lm.py does. */
export function unitRows(table: Float32Array, width: number): Float32Array {
  const out = new Float32Array(table.length);
  for (let at = 0; at < table.length; at += width) {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += table[at + i]! ** 2;
    const scale = 1 / Math.sqrt(sum + 1e-12);
    for (let i = 0; i < width; i++) out[at + i] = table[at + i]! * scale;
  }
  return out;
}
