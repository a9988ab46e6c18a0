import type { ChildDetails, SessionDetails } from '../../../client/index.ts';
import { RUN_END } from '../../../protocol/session/run-end.ts';
import type { GlobalOptions } from './command.ts';
import { stripControls } from './terminal.ts';

/** How many waiting calls are named; `agentctl approvals` lists all. */
const MOST_CALLS = 3;

/**
 * What a person can do next about a session: command lines as words behind `agentctl`, the likeliest first. `isServed`:
 * whether a daemon is running.
 */
export function nextCommands(details: SessionDetails, isServed: boolean): string[][] {
  const { name, session, settingsProblem, inbox } = details;
  if (settingsProblem !== null) return [['config', 'validate', '--session', name]];
  const calls = waitingCalls(details);
  if (calls.length > 0)
    return calls.slice(0, MOST_CALLS).flatMap(([at, id]) => ['approve', 'deny'].map((answer) => [answer, at, `${id}`]));
  if (!isServed && (session.run || inbox > 0)) return [['start']];
  if (session.run || inbox > 0) return [['watch', name]];
  return commandsWhenIdle(details);
}

/** Session and number of each call that waits for a person, here and in the child sessions. */
function waitingCalls({ asked, session, children }: SessionDetails): Array<[string, number]> {
  const below = children.flatMap(({ shown }: ChildDetails) => (shown ? waitingCalls(shown) : []));
  // Until its run has stopped, nobody can answer.
  return asked && !session.run ? [[asked.session, asked.id], ...below] : below;
}

function commandsWhenIdle({ name, session: { question, runEnd }, standing }: SessionDetails): string[][] {
  switch (standing) {
    case 'waiting':
      if (question) return [['send', name, question.choices[0] ?? 'your answer']];
      if (runEnd?.reason === RUN_END.question || runEnd?.reason === RUN_END.check)
        return [['send', name, 'your answer']];
      return [
        ['continue', name, 'your hint'],
        ['plan', name, 'edit'],
      ];
    case 'paused':
      return [['continue', name]];
    case 'failed':
      return [['continue', name]];
    case 'cancelled':
      return [['send', name, 'your next task']];
    case 'none':
    case 'completed':
      return [['send', name, 'your next task'], ...(runEnd ? [['reply', name]] : [])];
    case 'running':
      return [['send', name, 'your next task']];
    default:
      return standing satisfies never;
  }
}

/** A command line to copy, for the workspace that was named on this one. */
export function formatCommand([command = '', ...words]: readonly string[], { workspace }: GlobalOptions): string {
  const flag = workspace === undefined ? [] : ['--workspace', workspace];
  return ['agentctl', command, ...[...flag, ...words].map(quoteForShell)].join(' ');
}

/** One word of a command line, whatever it holds. */
const quoteForShell = (word: string): string =>
  /^[\w.,/@+-][\w.,/@+~-]*$/.test(word) ? word : `'${stripControls(word).replaceAll("'", "'\\''")}'`;
