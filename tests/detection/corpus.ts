import { readFileSync } from 'node:fs';
import { z } from 'zod';

const Turn = z.object({
  text: z.string(),
  tools: z.array(z.string()),
  args: z.array(z.string()).default([]),
  /** Steps that the agent's own todo list called completed at this turn. */
  completed: z.array(z.int()),
  /** `after`: recorded by a separate call after this turn; `same`: within it. */
  via: z.string().optional(),
  user: z.unknown().optional(),
});
const Run = z.object({
  source: z.string(),
  licence: z.string(),
  language: z.string(),
  id: z.string(),
  goal: z.string(),
  steps: z.array(z.string()),
  turns: z.array(Turn),
});
export type Run = z.infer<typeof Run>;

export function loadCorpus(path: string): Run[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => Run.parse(JSON.parse(line)));
}

/**
 * For each turn the steps completed there. A completion recorded by a separate call after a turn counts for the next
 * one, the first that is written with its result known; that is also when a daemon can act.
 */
export function labelsOf(run: Run): number[][] {
  const labels = run.turns.map((): number[] => []);
  for (const [index, turn] of run.turns.entries()) {
    if (turn.completed.length === 0) continue;
    const next = run.turns[index + 1];
    const at = turn.via === 'after' && next && !next.user ? index + 1 : index;
    labels[at]?.push(...turn.completed);
  }
  return labels;
}

/** The corpus as it would look if agents had been asked to write markers and did so on this share of the completions. */
export function withMarkers(runs: readonly Run[], share: number): Run[] {
  return runs.map((run) => {
    const labels = labelsOf(run);
    const mark = run.language === 'zh' ? '[完成]' : '[Done]';
    const chosen = (index: number): boolean =>
      (labels[index]?.length ?? 0) > 0 && (Number.parseInt(run.id, 16) + index * 37) % 100 < share * 100;
    return { ...run, turns: run.turns.map((turn, index) => (chosen(index) ? { ...turn, text: `${mark} ${turn.text}`.trim() } : turn)) };
  });
}
