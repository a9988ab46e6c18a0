import { formatLocalTime } from '../../base/strings.ts';
import type { ChangeCounts } from '../../protocol/session/checkpoint.ts';
import type { Event, EventOf, EventType } from '../../protocol/session/event.ts';
import type { Actor, StoredText } from '../../protocol/session/log-entry.ts';

/** As what people are shown an event; `state`: not at all. */
type EventKind = 'message' | 'answer' | 'call' | 'call ended' | 'step' | 'notice' | 'reply' | 'state';

type EventInfo<K extends EventType> = {
  kind: EventKind;
  /** What happened, for the docs (`npm run docs`). */
  about: string;
  /** The event in one line, for `agentctl log`, and as a notice that has no words of its own. */
  words(event: EventOf<K>): string;
};

const HOLD_ENDED = {
  given_back: '',
  nobody_there: ': nobody was connected to it',
  browser_closed: ': the browser had ended',
  no_socket: ': its socket could not be opened',
  daemon_ended: ': the daemon ended',
} satisfies Record<EventOf<'browser.returned'>['reason'], string>;

/** A long text is in a file of its session: the event has its beginning. */
const inlineText = (text: StoredText): string => ('text' in text ? text.text : text.head);

const formatCounts = ({ added, changed, removed }: ChangeCounts): string =>
  `${added} added, ${changed} changed, ${removed} removed`;

function savedWords({ checkpoint, counts, fault = '', why, steps, files, left_out }: EventOf<'work.saved'>): string {
  const when = steps.length > 0 ? `end of ${steps.join(', ')}` : why.replace('_', ' ');
  if (checkpoint === null) return `none (${when}): ${fault}`;
  const partial = left_out === undefined ? '' : `, ${left_out} left out`;
  return `${checkpoint} (${when}${partial}), ${formatCounts(counts)}: ${files.map(({ path }) => path).join(', ')}`;
}

/** Who made an edit: their name, and what they are unless that is a person. */
export function authorName({ by, author }: { by: Actor; author?: string | undefined }): string {
  if (author === undefined) return by;
  return by === 'person' ? author : `${author} (${by})`;
}

/** Every event, in the order of the schema: what people see of it is decided here, and nowhere else. */
export const EVENTS = {
  'session.opened': { kind: 'state', about: 'the log begins', words: ({ key }) => key },
  'session.forked': {
    kind: 'state',
    about: 'the log goes on as that of a copy: what comes before happened in another session',
    words: ({ how, from, seq }) => `${how} of ${from}, up to its event ${seq - 1}`,
  },
  'message.received': {
    kind: 'message',
    about: 'a dropped file was admitted; it will be answered',
    words: ({ name, command, body }) => `${name}: ${command ? `/${command} ` : ''}${inlineText(body)}`,
  },
  'message.interpreted': {
    kind: 'state',
    about: 'the model or a person said what an unclear message means; nothing was done about it before',
    words: ({ message, meaning, by, error }) =>
      `${message} is ${meaning}, by the ${by}${error === undefined ? '' : `: ${error}`}`,
  },
  'meaning.asked': {
    kind: 'state',
    about: 'a person was asked what a message means',
    words: ({ message }) => `of ${message}`,
  },
  'run.started': {
    kind: 'state',
    about: 'a message started a run, with its limits and mode',
    words: ({ message, paused_plan }) =>
      `for ${message}${paused_plan ? `, beside the paused plan ${paused_plan}` : ''}`,
  },
  'run.resumed': {
    kind: 'notice',
    about: 'a stopped run resumes, with a new budget window',
    words: ({ by, message }) => `by ${by}, for ${message}`,
  },
  'mode.chosen': {
    kind: 'state',
    about: 'the mode of the run, if the rules left it open',
    words: ({ mode, mode_reason }) => `${mode}: ${mode_reason}`,
  },
  'mode.set': {
    kind: 'state',
    about: 'a person set the mode of later tasks',
    words: ({ mode, message }) => `${mode ?? 'as in the settings'}, for ${message}`,
  },
  'model.set': {
    kind: 'state',
    about: 'a person set the model of later tasks',
    words: ({ model, message }) => `${model ?? 'as in the settings'}, for ${message}`,
  },
  'model.answered': {
    kind: 'answer',
    about: 'a call of the model returned: text, tool calls, usage, the messages delivered for the first time',
    words: ({ usage, ms, calls, text }) =>
      `${usage.estimated ? '~' : ''}${usage.tokens} tokens, ${ms} ms${calls.length === 0 ? '' : ` → ${calls.map(({ name }) => name).join(', ')}`}: ${text}`,
  },
  'model.failed': {
    kind: 'notice',
    about: 'a call of the model failed, and when it is retried',
    words: ({ kind, attempt, retry_at, error }) =>
      `${kind}, attempt ${attempt}${retry_at ? `, next attempt at ${formatLocalTime(retry_at)}` : ''}: ${error}`,
  },
  'tool.started': {
    kind: 'call',
    about: 'a tool call is about to begin',
    words: ({ call, name, args }) => `${call} ${name} ${args}`,
  },
  'tool.finished': {
    kind: 'call ended',
    about: 'it ended, ok or failed, with its output',
    words: ({ call, ok, ms, output }) => `${call} ${ok ? 'ok' : 'failed'}, ${ms} ms: ${inlineText(output)}`,
  },
  'tool.interrupted': {
    kind: 'call ended',
    about: 'it was interrupted and its outcome is unknown, or it never began',
    words: ({ call, outcome, why }) =>
      `${call} ${outcome === 'unknown' ? 'may or may not have run' : 'did not run'}: ${why}`,
  },
  'approval.asked': {
    kind: 'call',
    about: 'a call waits for a person: the exact call, its hash, why, and until when',
    words: ({ id, name, why, display }) => `${id}, ${name}, ${why}: ${display}`,
  },
  'approval.answered': {
    kind: 'notice',
    about: 'whether it runs, and who decided: a person, the timeout, or a rule',
    words: ({ id, call, decision, by, why }) => `${id ?? call} ${decision} by ${by}${why && `: ${why}`}`,
  },
  'browser.taken': {
    kind: 'notice',
    about: "a person took the session's browser over; the agent's calls for it wait",
    words: ({ from }) => `by ${from ?? 'a person'}: the agent waits where it needs its browser`,
  },
  'browser.returned': {
    kind: 'notice',
    about:
      'the agent has it back: a person gave it back, nobody was there any more, or the browser or the daemon had ended',
    words: ({ from, by, reason }) => `by ${from ?? (by === 'person' ? 'a person' : 'the daemon')}${HOLD_ENDED[reason]}`,
  },
  'plan.started': {
    kind: 'notice',
    about: 'a plan begins, without steps',
    words: ({ id, mode, goal }) => `${id} (${mode}): ${goal}`,
  },
  'plan.revised': {
    kind: 'notice',
    about: 'a planner revised what is still open: steps removed, changed and added, or none',
    words: ({ reason, changes }) => `${reason}: ${changes.map(({ what }) => what).join(', ')}`,
  },
  'plan.edited': {
    kind: 'notice',
    about:
      'a person changed the plan (a save of `plan.json`, `/plan …`, an order), or another agent, or the model by its `plan` tool: who, the changes, and what was ignored',
    words: ({ by, from, changes, ignored }) =>
      `by ${authorName({ by, author: from })}: ${[...changes.map(({ what }) => what), ...ignored].join('; ')}`,
  },
  'plan.ended': {
    kind: 'notice',
    about: 'a plan is completed, failed or cancelled, or was shelved as paused',
    words: ({ plan, status, reason }) => `${plan} ${status}: ${reason}`,
  },
  'step.added': { kind: 'step', about: 'the plan got a step', words: ({ step }) => `${step.id}: ${step.description}` },
  'step.started': { kind: 'step', about: 'a step is now worked on', words: ({ step }) => step },
  'step.progressed': {
    kind: 'state',
    about: 'a step is at m of n',
    words: ({ step, progress }) => `${step} ${progress.current}/${progress.total}`,
  },
  'step.claimed': {
    kind: 'state',
    about: 'someone claims a step is done: with a `veto` it was refused, without one its checks run',
    words: ({ step, tier, veto, evidence }) =>
      `${step} by ${tier}${veto === undefined ? '' : `, refused (${veto})`}: ${evidence}`,
  },
  'step.asked': {
    kind: 'state',
    about: 'the model will be asked whether a step is done',
    words: ({ step, iterations, in_doubt }) => `${step} after ${iterations} iterations${in_doubt ? ', in doubt' : ''}`,
  },
  'step.completed': {
    kind: 'step',
    about: 'a step is done, and what decided it',
    words: ({ step, by, result, evidence }) => `${step} by ${by}: ${result || evidence}`,
  },
  'step.failed': {
    kind: 'step',
    about: 'a step cannot be done, and why',
    words: ({ step, by, error }) => `${step} by ${by}: ${error}`,
  },
  'step.blocked': {
    kind: 'step',
    about: 'a step needs something from a person before it continues',
    words: ({ step, by, error }) => `${step} by ${by}: ${error}`,
  },
  'step.skipped': {
    kind: 'step',
    about: 'a step is left out, and why',
    words: ({ step, by, reason }) => `${step} by ${by}: ${reason}`,
  },
  'step.reopened': { kind: 'step', about: 'a closed step is open again', words: ({ step, by }) => `${step} by ${by}` },
  'child.sent': {
    kind: 'state',
    about: 'a step was given to a child session, or the child was sent a stop or a continue',
    words: ({ step, child, attempt, command }) =>
      `${step} to ${child}, attempt ${attempt}${command ? `, /${command}` : ''}`,
  },
  'child.asked': {
    kind: 'state',
    about: 'which calls of child sessions wait for a person, and whether the run that waited for them goes on',
    words: ({ calls }) =>
      calls.map(({ session, id, tool, display }) => `${session} ${id}, ${tool} ${display}`).join('; '),
  },
  'child.replied': {
    kind: 'state',
    about: 'a child session has answered',
    words: ({ step, child, reply }) => `${step} from ${child}, ${reply.status}: ${reply.text}`,
  },
  'context.compacted': {
    kind: 'notice',
    about: 'the conversation starts over (`/new`), or its older turns are replaced by a summary',
    words: ({ summary, upto }) => (summary === '' ? 'a new conversation' : `up to ${upto}: ${summary}`),
  },
  'work.saved': {
    kind: 'state',
    about: 'a checkpoint of `work/`: its number, why it was taken, and what changed since the one before',
    words: savedWords,
  },
  'work.restored': {
    kind: 'state',
    about: 'files in `work/` were made what they were at a checkpoint',
    words: ({ fault, checkpoint, counts }) => fault || `from checkpoint ${checkpoint}, ${formatCounts(counts)}`,
  },
  'run.ended': {
    kind: 'notice',
    about: 'a run stopped, why, what its reply says, what it spent',
    words: ({ status, reason, text }) => `${status} (${reason}): ${text}`,
  },
  'reply.committed': {
    kind: 'reply',
    about: 'the one reply of a message is decided',
    words: ({ reply }) => `${reply.id} ${reply.status}: ${reply.text}`,
  },
  'reply.published': { kind: 'state', about: 'it is in `outbox/`', words: ({ message }) => `to ${message}` },
  'recovery.started': {
    kind: 'notice',
    about: 'a daemon found things left open by an earlier one, and how that one ended',
    words: ({ open, cut = [], error }) => [...open, ...cut, ...(error === undefined ? [] : [error])].join('; '),
  },
  'daemon.stopped': {
    kind: 'state',
    about: 'a daemon shut down cleanly and left things open',
    words: ({ open }) => open.join('; '),
  },
} as const satisfies { [K in EventType]: EventInfo<K> };

/** The events that are shown as this kind. */
export type EventOfKind<K extends EventKind> = {
  [T in EventType]: (typeof EVENTS)[T]['kind'] extends K ? EventOf<T> : never;
}[EventType];

export const isOfKind = <K extends EventKind>(event: Event, kind: K): event is EventOfKind<K> =>
  EVENTS[event.type].kind === kind;

const INFO: { [K in EventType]: EventInfo<K> } = EVENTS;
type EventMap = { [K in EventType]: EventOf<K> };

/** As what an event is shown, and its words in one line. */
export function describeEvent<K extends EventType>(
  event: EventMap[K] & { type: K },
): { kind: EventKind; words: string } {
  const info = INFO[event.type];
  return { kind: info.kind, words: info.words(event) };
}
