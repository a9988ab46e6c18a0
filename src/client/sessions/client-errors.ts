import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { firstFew, nearestName, quoteForShell } from '../../base/strings.ts';
import { InvalidArgument, UserError } from '../../base/user-error.ts';
import type { EditRefusal } from '../../protocol/session/plan-edit.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';

/** What was named does not exist, or not any more. */
export class NotFound extends UserError {}

/** There is no session of this name. */
export class NoSuchSession extends NotFound {
  /** `archived`: a session of that name is in `.archive/`. */
  constructor(name: string, folders: string[], archived?: boolean) {
    const known = folders.map(readableName);
    const near = nearestName(name.slice(0, 80), known);
    const meant = archived
      ? ' It was archived: to use it again, move its folder from .archive/ to .sessions/.'
      : near === undefined
        ? ''
        : ` Did you mean ${JSON.stringify(near)}?`;
    super(`No session ${JSON.stringify(name)}.${meant} Known: ${firstFew(known).join(', ') || 'none yet'}.`);
  }
}

/** Not possible in the daemon's current state: running, stopped, or working in that session. */
export class DaemonState extends UserError {}

/** The reply did not arrive in time. It may still come. */
export class WaitedTooLong extends UserError {}

/** None of the waiting calls matches, or more than one does. */
export class NoSuchApproval extends NotFound {}

/** A message with this id was sent before, with other content. */
export class MessageConflict extends UserError {}

/** An edit of a plan was refused. */
export class PlanConflict extends UserError {
  readonly why: EditRefusal;

  constructor(message: string, why: EditRefusal) {
    super(message);
    this.why = why;
  }
}

/** There is no such file or folder in the session, or the path leads through a link. */
export class NoSuchFile extends NotFound {}

/** The plan has no such step or revision. */
export class NotInPlan extends NotFound {}

/** There is no schedule of this name. */
export class NoSuchSchedule extends NotFound {
  constructor(name: string, names: readonly string[]) {
    const near = nearestName(name.slice(0, 80), names);
    const meant = near === undefined ? '' : ` Did you mean "${near}"?`;
    super(
      `There is no schedule ${JSON.stringify(name)}.${meant} Schedules: ${firstFew(names).join(', ') || 'none yet; see: agentctl schedule --help'}.`,
    );
  }
}

/** An upload is longer than is allowed. */
export class FileTooLarge extends UserError {
  constructor(most: number) {
    super(`The file has more than ${most} bytes. Put it into work/ of the session yourself, or split it.`);
  }
}

/** What is said of a flag, argument or variable that was given without a value. */
export const emptyValue = (name: string): string =>
  `${name} is empty. Expected a value; is a variable in your script not set? To use the default, leave it out.`;

/**
 * The workspace of commands that name none: `$AGENTD_WORKSPACE`, else `~/.workspace`. An absolute path. Throws
 * UserError if the variable that counts is empty.
 */
export function defaultWorkspace(env: NodeJS.ProcessEnv = process.env): string {
  const named = env['AGENTD_WORKSPACE'];
  if (named === '') throw new InvalidArgument(emptyValue('AGENTD_WORKSPACE'));
  if (named !== undefined) return resolve(named);
  const home = homedir();
  if (home === '') throw new InvalidArgument(emptyValue('HOME'));
  return resolve(home, '.workspace');
}

/** A command line of agentctl to copy. It names the workspace unless that is the default. */
export function commandLine(root: string, [command = '', ...words]: readonly string[]): string {
  const flag = isDefault(root) ? [] : ['--workspace', root];
  return ['agentctl', command, ...[...flag, ...words].map(quoteForShell)].join(' ');
}

function isDefault(root: string): boolean {
  try {
    return root === defaultWorkspace();
  } catch (error) {
    if (error instanceof InvalidArgument) return false;
    throw error;
  }
}
