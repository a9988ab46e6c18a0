import { answerIn } from '../core/approval-file.ts';
import type { Session } from '../core/session.ts';
import { UserError } from '../protocol/errors.ts';
import { askedIn, textIn } from '../store/approvals.ts';
import type { SessionPaths } from '../store/layout.ts';
import { foldRecord } from './meaning.ts';

type Named = SessionPaths & { name: string };

/** A call that waits for a person. */
export type Asked = {
  session: string;
  id: number;
  tool: string;
  /** The call as a person reads it. */
  shows: string;
  why: string;
  always: string | null;
  /** ISO 8601, UTC. */
  expires_at: string;
  /** Why what is in its file is no answer. */
  problem: string | null;
};

/** None of the calls that wait is meant, or more than one may be. */
export class NoSuchApproval extends UserError {
  constructor(message: string) {
    super(message);
    this.name = 'NoSuchApproval';
  }
}

/** The call that waits in this session, as its record has it. */
export function askedOf(paths: Named, { approvals: { open } }: Session): Asked | null {
  if (!open) return null;
  const { id, name: tool, shows, why, always, expires_at } = open;
  const text = textIn(`${paths.approvals}/${id}.json`);
  const answer = text === undefined ? null : answerIn(text, open);
  const problem = answer && 'fault' in answer ? `approvals/${id}.json is no answer: ${answer.fault}` : null;
  return { session: paths.name, id, tool, shows, why, always, expires_at, problem };
}

/** The call that is meant by a session, and perhaps a number: its own, or one of a session that works for it. */
export async function meantBy(family: readonly Named[], id: number | undefined): Promise<Asked> {
  const open: Asked[] = [];
  for (const paths of family) {
    if (paths !== family[0] && askedIn(paths).length === 0) continue;
    const asked = askedOf(paths, await foldRecord(paths));
    if (asked) open.push(asked);
  }
  const meant = id === undefined ? open : open.filter((one) => one.id === id);
  const own = meant.find((one) => one.session === family[0]?.name);
  const only = meant.length === 1 ? meant[0] : id === undefined ? undefined : own;
  if (only) return only;
  const lines = open.map((one) => `  ${one.session} ${one.id}  ${one.tool} ${one.shows.split('\n')[0]}`);
  const name = family[0]?.name ?? '';
  throw new NoSuchApproval(
    open.length === 0
      ? `No call waits for an answer in ${name}.`
      : [
          id === undefined || meant.length > 1
            ? 'Several calls wait; say which, by session and number:'
            : `No call ${id} waits in ${name}. These do:`,
          ...lines,
        ].join('\n'),
  );
}
