import { truncate } from '../../base/strings.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import { ASK_USER_TOOL, PLAN_TOOL } from '../../protocol/tool-calls/own-tools.ts';
import type { TurnCall } from './run-state.ts';

const FILE_WRITING_TOOLS = new Set(['write_file', 'edit_file']);
const FILE_READING_TOOLS = new Set(['read_file', 'list_files', 'search_files']);

/** Whether a call writes the file that is its main argument. */
export const writesFile = ({ name }: Pick<TurnCall, 'name'>): boolean => FILE_WRITING_TOOLS.has(name);

/** The path of a call's file in the session folder; `folder`: where under `work/` the run works. */
export const pathUnderWork = (folder: string | undefined, path: string): string =>
  `work/${folder === undefined ? '' : `${folder}/`}${path.replace(/^(?:\.\/)?(?:work\/)?/, '')}`;

const MAX_PROOF_LENGTH = 160;
const HASH_DIGITS = 16;

/**
 * What a person can check of a call that succeeded: a file and its hash, a command and its exit status, an address, or
 * the call itself; undefined for calls that do no work.
 */
export function proofOfCall(
  { name, mainArgument }: Pick<TurnCall, 'name' | 'mainArgument'>,
  { exit, sha256 }: Pick<EventOf<'tool.finished'>, 'exit' | 'sha256'>,
  folder: string | undefined,
): string | undefined {
  if (name === PLAN_TOOL.name || name === ASK_USER_TOOL.name) return undefined;
  const argument = mainArgument.replace(/\s+/g, ' ').trim();
  const path = FILE_WRITING_TOOLS.has(name) || FILE_READING_TOOLS.has(name) ? pathUnderWork(folder, argument) : '';
  const hash = sha256 === undefined ? '' : ` sha256 ${sha256.slice(0, HASH_DIGITS)}`;
  const shown = FILE_WRITING_TOOLS.has(name)
    ? `${path}${hash}`
    : typeof exit === 'number'
      ? `exit ${exit}: ${argument}`
      : `${name} ${path || argument}`.trim();
  return truncate(shown, MAX_PROOF_LENGTH);
}

/** The most a step names; the last calls say most about how it ended. */
const MAX_PROOFS = 8;

/** The proofs of a step's turns, the last call of each file or command only, in their order. */
export function proofOfTurns(proofs: readonly string[]): string[] {
  const latest = new Map<string, string>();
  for (const proof of proofs) {
    const subject = proof.replace(/ sha256 \w+$/, '');
    latest.delete(subject);
    latest.set(subject, proof);
  }
  return [...latest.values()].slice(-MAX_PROOFS);
}
