import { kindOfTool } from './tool-kinds.ts';

export interface Pace {
  readonly iterationInStep: number;
  readonly stepIterations: number;
  readonly text: string;
  readonly tools?: readonly string[] | undefined;
  readonly args?: readonly string[] | undefined;
  readonly toolsInStep?: readonly (readonly string[])[] | undefined;
  readonly argsInStep?: readonly (readonly string[])[] | undefined;
  readonly textsInStep?: readonly string[] | undefined;
}

/**
 * Whether a step has gone on for too long without a sign. Stateless: true at the limit and from there on. Where the
 * earlier calls of the step are known, only a standstill times out: `stepIterations` turns in a row that touched, said
 * and changed nothing new. In real transcripts steps take a median of 3 turns,
 * but every tenth more than 13, and the plain limit is right once in fourteen times.
 */
export function hasTimedOut(pace: Pace): boolean {
  const { iterationInStep, stepIterations } = pace;
  if (iterationInStep < stepIterations) return false;
  if (pace.args === undefined || pace.argsInStep === undefined) return true;
  return !hasMoved(pace);
}

function hasMoved({ stepIterations, text, tools, args, toolsInStep, argsInStep, textsInStep }: Pace): boolean {
  // The main argument of an edit is its file, so the same argument may well be another edit.
  const edits = [...(toolsInStep ?? []), tools ?? []].slice(-stepIterations).flat();
  if (edits.some((tool) => kindOfTool(tool) === 'edit')) return true;
  return (
    bringsNew([...(argsInStep ?? []), args ?? []], stepIterations) ||
    bringsNew(
      [...(textsInStep ?? []), text].map((said) => [said.trim()]),
      stepIterations,
    )
  );
}

/** Whether the last `span` turns hold anything that no earlier turn of the step held. */
function bringsNew(turns: readonly (readonly string[])[], span: number): boolean {
  const seen = new Set(turns.slice(0, -span).flat());
  return turns.slice(-span).some((turn) => turn.some((thing) => thing !== '' && !seen.has(thing)));
}
