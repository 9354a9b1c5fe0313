// From the bytes of an exported file to a model that reads in the page.

import { ModelProblem, readTensors } from "../safetensors";
import { Ngram } from "./ngram";
import type { Reserved, Stepwise } from "./stepwise";
import { Transformer } from "./transformer";
import { WordLM } from "./word_lm";

export interface LoadedModel {
  readonly model: Stepwise;
  readonly words: readonly string[];
  readonly reserved: Reserved;
  readonly parameters: number;
}

/** The model in a file that Tacit exported; ModelProblem, in one sentence, if the page cannot run it. */
export function loadModel(file: ArrayBuffer): LoadedModel {
  const { metadata, tensors } = readTensors(file);
  const about = <T>(key: string): T => {
    const text = metadata[key];
    if (text === undefined) throw new ModelProblem(`The model's file has no "${key}" in its metadata: Tacit did not export it.`);
    try {
      return JSON.parse(text) as T;
    } catch {
      throw new ModelProblem(`The model's file is damaged: its "${key}" cannot be read.`);
    }
  };
  const words = about<string[]>("vocabulary");
  const { bos, eos, oov, first_word: firstWord } = about<Record<string, number>>("reserved") as Record<string, number>;
  const architecture = about<{ kind?: string } & Record<string, unknown>>("architecture");
  let model: Stepwise;
  switch (architecture?.kind) {
    case "word_lm":
      model = new WordLM(tensors, architecture as never) as Stepwise;
      break;
    case "transformer":
      model = new Transformer(tensors, architecture as never) as Stepwise;
      break;
    case "ngram":
      model = new Ngram(tensors, architecture["order"] as number) as Stepwise;
      break;
    default:
      throw new ModelProblem(
        "The page runs Tacit's recurrent word models, its transformer and its n-grams, and this model is none of them.",
      );
  }
  let parameters = 0;
  for (const { data } of tensors.values()) parameters += data.length;
  return { model, words, reserved: { bos: bos!, eos: eos!, oov: oov!, firstWord: firstWord! }, parameters };
}
