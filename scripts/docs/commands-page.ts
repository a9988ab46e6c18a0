import { SESSION_COMMANDS } from '../../src/core/messages/commands.ts';
import { MESSAGE_ACTIONS } from '../../src/core/messages/message-actions.ts';

const MEANING: Record<string, string> = {
  start: 'starts a run',
  start_beside: 'answered beside the plan; before other work would shelve the plan, its sender is asked',
  ask_meaning: 'asks: "Go on with …, or is this a new task?"',
  hold_and_ask: 'begins nothing more, and asks whether to stop',
  join: 'joins the run: delivered with the next model call',
  wait: 'waits its turn: a run of its own after this one',
  resume: 'resumes the run',
  pause_after_call: 'pauses the run after the call in flight',
  abort_and_pause: 'aborts the call in flight, pauses the run',
  abort_and_cancel: 'aborts the call in flight, cancels the run',
  abort_and_reset: 'aborts, then starts a new conversation',
  mark_paused: '`waiting` becomes `paused`',
  mark_cancelled: 'becomes `cancelled`',
  reopen: 'reopens the step closed last',
  restore: 'restores files, if nothing works in `work/`; during a run it is refused',
  reset: 'archives the plan, starts a new conversation',
  show_status: 'answered at once',
  show_plan: 'answered at once',
  show_help: 'answered at once',
  about_mode: 'answered at once; applies to new tasks',
  about_model: 'answered at once; applies to new tasks',
  about_browser: 'answered at once; a call of the agent for the browser waits while a person has it',
  keep_for_later: 'shown to the model with the next task',
  reply_nothing_runs: 'reply: nothing is running',
  reply_paused: 'reply: already paused',
  reply_planned: 'becomes a schedule; reply: when it is due',
  reply_ended: 'reply: already ended',
  reply_nothing_asked: 'answers the waiting call; without one, reply: no call is waiting',
  reply_nothing_to_continue: 'a task like any other; the bare command gets the reply: nothing to continue',
};

/** The commands, and what each kind of message does in each state, from the tables that the code uses. */
export function commandsPage(): string {
  const commands = Object.values(SESSION_COMMANDS).map(
    ({ usage, description }) => `| \`${usage.replaceAll('|', '\\|')}\` | ${description} |`,
  );
  const states = Object.keys(MESSAGE_ACTIONS.task) as Array<keyof typeof MESSAGE_ACTIONS.task>;
  const rows = Object.entries(MESSAGE_ACTIONS).map(([kind, row]) => ({
    kind,
    cells: states.map((state) => MEANING[row[state]]),
  }));
  const isSameInAll = ({ cells }: { cells: unknown[] }) => new Set(cells).size === 1;
  return [
    '# Commands and messages',
    '',
    'Generated from `src/core/messages/commands.ts` and `src/core/messages/message-actions.ts` by `npm run docs`.',
    '',
    'A message whose first line begins with `/`, or a JSON message with a `command`, is a command. "continue", "stop", "pause" and',
    '"not done yet", said as a whole message, in English, Chinese and some other languages, mean the same as the command.',
    '',
    '| command | what it does |',
    '|---|---|',
    ...commands,
    '',
    '## What a message does in each state',
    '',
    `| | ${states.map((state) => (state === 'none' ? 'no run' : state === 'failed' ? 'failed or cancelled' : state)).join(' | ')} |`,
    `|---|${states.map(() => '---').join('|')}|`,
    ...rows.filter((row) => !isSameInAll(row)).map(({ kind, cells }) => `| **${kind}** | ${cells.join(' | ')} |`),
    '',
    '| | in every state |',
    '|---|---|',
    ...rows.filter(isSameInAll).map(({ kind, cells }) => `| **${kind}** | ${cells[0]} |`),
    '',
    '**unclear** is what may or may not be an order ([words](protocol.md#words)). The model is asked first; the table says what is done if it cannot',
    'tell.',
    '',
    '**data** is a message of a sender who may not give instructions ([setting `senders`](security.md#what-reaches-the-model-and-as-whose-words)).',
    'Whatever it says, it starts, resumes and stops nothing; a command in it is refused.',
    '',
  ].join('\n');
}
