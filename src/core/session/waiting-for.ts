import { getOwn } from '../../base/collections.ts';
import { escapeInvisible, truncate } from '../../base/strings.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { runWait, sessionStanding } from './session-queries.ts';
import type { Session } from './session-state.ts';

/** What a session waits for and does not get by itself, or not now. */
export type SessionWait = {
  /** In a word, such as `approval`, `question`, `limit`, `model` or `disk`. */
  what: string;
  /** "repair": something is broken; "person": an answer or a decision; "time": it goes on by itself. */
  needs: 'repair' | 'person' | 'time';
  /** In one line. */
  why: string;
  /** When it goes on by itself, ISO 8601, UTC. */
  until: string | null;
  /** The messages that answer it, word for word, the likeliest first; "…" stands for words of your own. */
  say: string[];
  /** The commands that help, as words behind `agentctl`, the likeliest first. */
  commands: string[][];
};

/** What else a session may wait for, which its own state does not show. */
export type Surroundings = {
  /** Whether a daemon is running. */
  isServed: boolean;
  /** Why the daemon does not take its messages. */
  unserved: string | null;
  /** Why the disk takes no new messages (`low`), or no further calls either (`full`). */
  disk: { space: 'low' | 'full'; why: string } | null;
  /** Why its settings are invalid, and those of the workspace. */
  settings: string | null;
  workspaceSettings: string | null;
  /** Messages that are not taken yet. */
  inbox: number;
  /** How many runs are at work at once, while this one waits for one of them to end. */
  queuedBehind?: number | undefined;
  /** The calls that wait for an answer, here and in child sessions. */
  calls: ReadonlyArray<{ session: string; id: number; tool: string; display: string }>;
};

/** How many waiting calls are named; `agentctl approvals` lists all. */
const MOST_CALLS = 3;
/** The most characters of `why`. */
const MAX_WHY_CHARS = 300;

/**
 * What a session waits for, and the exact words or command that answer it; null while it works, and once nothing is
 * left to do. Every face shows this one answer.
 */
export function waitingFor(session: Session, around: Surroundings): SessionWait | null {
  const { run, runEnd } = session;
  const { isServed, unserved, disk, settings, workspaceSettings, inbox, calls } = around;
  const name = readableName(session.name);
  if (settings !== null) return repair('settings', settings, [['config', 'validate', '--session', name]]);
  if (unserved !== null) return repair('daemon', unserved, [['status']]);
  const [call] = calls;
  if (call) {
    const commands = calls
      .slice(0, MOST_CALLS)
      .flatMap(({ session: at, id }) => ['approve', 'deny'].map((answer) => [answer, readableName(at), `${id}`]));
    return person(RUN_END.approval, `approval of ${call.tool} ${call.display}`, ['yes', 'no'], commands);
  }
  const hasWork = run !== null || inbox > 0;
  if (!isServed && hasWork)
    return repair('daemon', 'no daemon is running', [workspaceSettings === null ? ['start'] : ['config', 'validate']]);
  if (disk && (disk.space === 'full' ? hasWork : inbox > 0))
    return repair('disk', `${disk.why}; free some space, and work resumes by itself`, [['status']]);
  if (run) return waitOfRun(session, name) ?? waitForOthers(around.queuedBehind, name);
  if (inbox > 0) return null;
  // The daemon goes on by itself once the file is valid.
  if (workspaceSettings !== null && runEnd?.reason === RUN_END.settings)
    return repair('settings', workspaceSettings, [['config', 'validate']]);
  return waitAtRest(session, name);
}

function waitOfRun(session: Session, name: string): SessionWait | null {
  const wait = runWait(session);
  const last = session.run?.failure?.last;
  if (!wait || !last) return null;
  const { what, until } = wait;
  const why = {
    budget: last.error,
    'model limit': `the model has reached a limit: ${last.error}`,
    model: `the model does not answer, attempt ${last.attempt}: ${last.error}`,
  }[what];
  const commands = { budget: [['usage']], 'model limit': [['watch', name]], model: MODEL_REMEDY }[what];
  return { what, needs: 'time', why: firstLine(why), until, say: [], commands };
}

function waitForOthers(runs: number | undefined, name: string): SessionWait | null {
  if (runs === undefined) return null;
  const why = `${runs} runs are at work, the most at once (concurrency.runs); it goes on when one of them ends`;
  return { what: 'queued', needs: 'time', why, until: null, say: [], commands: [['watch', name]] };
}

const OTHER_MODEL = ['restart', '--base-url', 'http://127.0.0.1:11434/v1', '--model', 'NAME'];
/** Against a model that does not answer: find out why, then start the daemon with another one. */
const MODEL_REMEDY = [['doctor', '--ask'], OTHER_MODEL];

/** How to repair what made a run end over its model; none where "continue" alone may help. */
const REMEDIES: Readonly<Record<string, string[][]>> = {
  unconfigured: [OTHER_MODEL],
  // The daemon reads keys where it is started.
  rejected: [['doctor', '--ask'], ['restart']],
  unreachable: MODEL_REMEDY,
  [RUN_END.outage]: MODEL_REMEDY,
};

/** The commands that come before "continue" after a run that ended for this reason. */
export const remediesOf = (reason: string | undefined): string[][] => getOwn(REMEDIES, reason ?? '') ?? [];

/** What a session waits for as far as its own state shows it, while all is well around it. */
export const ownWait = (session: Session): SessionWait | null =>
  waitingFor(session, {
    ...{ isServed: true, unserved: null, disk: null, settings: null, workspaceSettings: null, inbox: 0 },
    calls: ownCalls(session),
  });

/** The call of this session that can be answered now: not before its run has stopped. */
export const ownCalls = ({ name, run, approvals: { open } }: Session): Surroundings['calls'] =>
  open && !run ? [{ session: name, id: open.id, tool: open.name, display: escapeInvisible(open.display) }] : [];

function waitAtRest(session: Session, name: string): SessionWait | null {
  const { runEnd, plan, question, doubt } = session;
  const standing = sessionStanding(session);
  // Of a plan that was opened again after its run, the reason is in the plan.
  const reason = (runEnd?.status === standing ? runEnd.reason : plan?.reason) ?? standing;
  const text = firstLine(inWords((runEnd?.status === standing && runEnd.text) || reason));
  const goOn = ['continue', name];
  switch (standing) {
    case 'waiting':
      if (question) {
        const { choices } = question;
        const say = choices.length > 0 ? [...choices] : ['…'];
        return person(RUN_END.question, question.text, say, [['send', name, choices[0] ?? 'your answer']]);
      }
      if (doubt !== null) return person(reason, text, ['go on', 'new task'], [['send', name, 'go on']]);
      if (reason === RUN_END.question || reason === RUN_END.check)
        return person(reason, text, ['…', 'continue'], [['send', name, 'your answer']]);
      if (reason === RUN_END.approval) return person(reason, text, ['yes', 'no'], [['approvals', name]]);
      if (reason === RUN_END.needs || reason === RUN_END.stuck)
        return person(reason, text, ['continue'], [['plan', name, 'edit'], goOn]);
      return person(
        reason,
        text,
        ['…', 'continue', '/cancel'],
        [
          [...goOn, 'your hint'],
          ['plan', name, 'edit'],
        ],
      );
    case 'paused':
      return person(reason, text, ['continue'], [...remediesOf(reason), goOn]);
    case 'failed':
      return { ...person(reason, text, ['continue'], [...remediesOf(reason), goOn]), needs: 'repair' };
    default:
      return null;
  }
}

const person = (what: string, why: string, say: string[], commands: string[][]): SessionWait => ({
  ...{ what, needs: 'person', why: firstLine(why), until: null, say, commands },
});

const repair = (what: string, why: string, commands: string[][]): SessionWait => ({
  ...{ ...person(what, why, [], commands), needs: 'repair' },
});

/** Without the brackets of the marker of the model that a text may begin with: `Failed: no key`. */
const inWords = (text: string): string =>
  text.replace(/^[\s*_]*[[【［]([^[\]【】［］]+)[\]】］](?!\()[*_]*[\s:：]*(?=(.?))/u, (_, inside, next) =>
    next === '' ? inside : `${inside}: `,
  );

const firstLine = (text: string): string => truncate(text.trim().split('\n')[0] ?? '', MAX_WHY_CHARS);
