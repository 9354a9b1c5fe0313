// What the board's JSON holds (tacit/web, /api/openapi.json).

export interface RunRow {
  key: string;
  name: string;
  folder: string;
  recipe: string;
  created: string;
  state: string;
  rounds: number;
  planned: number | null;
  releases: number;
  metrics: Record<string, number>;
  epsilon: number | null;
  cost_known: boolean;
  delta: number | null;
  infinite_because: string[];
  epsilon_so_far: number | null;
  mechanism: string;
  problem: string | null;
  seconds_a_round: number | null;
  kind: string;
  version: number;
}

export interface RunTable {
  folders: string[];
  control: boolean;
  owner: boolean;
  runs: RunRow[];
}
