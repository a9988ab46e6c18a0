import type { Role } from '../../protocol/workspace/daemon-files.ts';
import type { MessageStanding } from '../session/session-queries.ts';

/** What an action is to people and to a run. Its function is in `ACTIONS` (`decide/answers.ts`). */
type ActionInfo = {
  /** For the docs. */
  meaning: string;
  /**
   * Handled ahead of the queue in a run: by aborting the call in flight, while it goes on, or as soon as it has ended.
   * Without it, the message joins the run or waits for its turn.
   */
  duringCall?: 'aborts' | 'beside' | 'after';
  endsRun?: true;
};

// biome-ignore format: a table reads as a table
/** Everything that may be done about a message. */
export const MESSAGE_ACTIONS = {
  start: { meaning: 'starts a run' },
  start_beside: { meaning: 'answered beside the plan; before other work would shelve the plan, its sender is asked' },
  ask_meaning: { meaning: 'asks: "Go on with …, or is this a new task?"' },
  hold_and_ask: { meaning: 'begins nothing more, and asks whether to stop', duringCall: 'after', endsRun: true },
  join: { meaning: 'joins the run: delivered with the next model call' },
  wait: { meaning: 'waits its turn: a run of its own after this one' },
  resume: { meaning: 'resumes the run' },
  pause_after_call: { meaning: 'pauses the run after the call in flight', duringCall: 'after', endsRun: true },
  abort_and_pause: { meaning: 'aborts the call in flight, pauses the run', duringCall: 'aborts', endsRun: true },
  abort_and_cancel: { meaning: 'aborts the call in flight, cancels the run', duringCall: 'aborts', endsRun: true },
  abort_and_reset: { meaning: 'aborts, then starts a new conversation', duringCall: 'aborts', endsRun: true },
  mark_paused: { meaning: '`waiting` becomes `paused`' },
  mark_cancelled: { meaning: 'becomes `cancelled`' },
  stop_children: { meaning: 'stops child sessions that finish their calls; else reply: already paused' },
  reopen: { meaning: 'reopens the step closed last', duringCall: 'after' },
  // During a run it is refused.
  restore: { meaning: 'restores files, if nothing works in `work/`; during a run it is refused', duringCall: 'beside' },
  reset: { meaning: 'archives the plan, starts a new conversation' },
  show_status: { meaning: 'answered at once', duringCall: 'beside' },
  show_plan: { meaning: 'answered at once', duringCall: 'beside' },
  show_help: { meaning: 'answered at once', duringCall: 'beside' },
  about_mode: { meaning: 'answered at once; applies to new tasks', duringCall: 'beside' },
  about_model: { meaning: 'answered at once; applies to new tasks', duringCall: 'beside' },
  about_browser: { meaning: 'answered at once; a call of the agent for the browser waits while a person has it', duringCall: 'beside' },
  keep_for_later: { meaning: 'shown to the model with the next task' },
  reply_nothing_asked: { meaning: 'answers the waiting call; without one, reply: no call is waiting', duringCall: 'beside' },
  reply_nothing_runs: { meaning: 'reply: nothing is running' },
  reply_paused: { meaning: 'reply: already paused' },
  reply_planned: { meaning: 'becomes a schedule; reply: when it is due', duringCall: 'beside' },
  reply_ended: { meaning: 'reply: already ended' },
  reply_nothing_to_continue: { meaning: 'a task like any other; the bare command gets the reply: nothing to continue' },
} as const satisfies Record<string, ActionInfo>;

export type MessageAction = keyof typeof MESSAGE_ACTIONS;

type MessageInfo = {
  /** Of a command: how it is written, and what it does, for `/help`, completion and the docs. */
  usage?: string;
  help?: string;
  /** What it does in each state of the session; one action: in every state. `failed`: it failed or was cancelled. */
  states: MessageAction | Readonly<Record<MessageStanding, MessageAction>>;
  /**
   * While a call waits for approval: `answers` it by number, or by `words` of consent; `withdraws` it, since the run is
   * to end; `denies` it, and waits for its turn. Without it, the call waits on.
   */
  whileAsked?: 'answers' | 'words' | 'withdraws' | 'denies';
  /** It asks for less work, and is taken even on a full disk. */
  stopsWork?: true;
  /** The role that its sender needs, if more than to send messages; `bare`: the command alone needs none. */
  needs?: { role: Role; why: string; bare?: true };
};

// biome-ignore format: a table reads as a table
const PAUSED = { none: 'reply_nothing_runs', running: 'pause_after_call', waiting: 'mark_paused', paused: 'reply_paused', completed: 'reply_nothing_runs', failed: 'reply_nothing_runs' } as const;

// biome-ignore format: a table reads as a table
/**
 * What each kind of message does: the complete behaviour of a session towards people, on one screen. Rows with `usage`
 * are commands. `unclear`: a person's words that may be an order; `data`: its sender may not give orders.
 */
export const MESSAGES = {
  task: {
    states: { none: 'start', running: 'join', waiting: 'resume', paused: 'start_beside', completed: 'start', failed: 'start' },
    whileAsked: 'words',
  },
  continue: {
    usage: '/continue [plan id] [note]', help: 'resumes the run, with an optional note',
    states: { none: 'reply_nothing_to_continue', running: 'join', waiting: 'resume', paused: 'resume', completed: 'reply_nothing_to_continue', failed: 'resume' },
    whileAsked: 'words',
  },
  pause: {
    usage: '/pause', help: 'finishes the call in flight, then pauses the run',
    states: PAUSED, whileAsked: 'withdraws', stopsWork: true,
  },
  stop: {
    usage: '/stop', help: 'aborts the call in flight and pauses the run',
    states: { none: 'reply_nothing_runs', running: 'abort_and_pause', waiting: 'mark_paused', paused: 'stop_children', completed: 'reply_nothing_runs', failed: 'reply_nothing_runs' },
    whileAsked: 'withdraws', stopsWork: true,
  },
  cancel: {
    usage: '/cancel', help: 'aborts the call in flight and ends the plan and all background jobs',
    states: { none: 'reply_nothing_runs', running: 'abort_and_cancel', waiting: 'mark_cancelled', paused: 'mark_cancelled', completed: 'reply_ended', failed: 'reply_ended' },
    whileAsked: 'withdraws', stopsWork: true,
  },
  undo: {
    usage: '/undo [--files]', help: 'reopens the step that was closed last; "--files" also restores what it changed in work/',
    states: 'reopen',
  },
  restore: {
    usage: '/restore <step|checkpoint> [path …]', help: 'makes the files in work/ what they were at the end of a step',
    states: 'restore', needs: { role: 'admin', why: 'a message that restores files' },
  },
  new: {
    usage: '/new', help: 'archives the plan, ends background jobs and starts a new conversation',
    states: { none: 'reset', running: 'abort_and_reset', waiting: 'reset', paused: 'reset', completed: 'reset', failed: 'reset' },
    whileAsked: 'withdraws',
  },
  status: { usage: '/status', help: 'shows what is running and what was spent', states: 'show_status' },
  plan: { usage: '/plan [done|skip|add|move|reword|undo …]', help: 'shows the plan, or changes it like a hand edit', states: 'show_plan' },
  run: {
    usage: '/run <template> [name=value …]', help: 'runs a template from the folder templates/',
    states: { none: 'start', running: 'wait', waiting: 'start_beside', paused: 'start_beside', completed: 'start', failed: 'start' },
    whileAsked: 'denies',
  },
  mode: { usage: '/mode [mode|default] [task]', help: 'shows the planning mode, sets it for new tasks, or runs this task in it', states: 'about_mode' },
  model: {
    usage: '/model [name|default]', help: 'shows the model, or sets it for new tasks: a name in `models`, or one that the endpoint knows',
    states: 'about_model',
  },
  browser: {
    usage: '/browser [take|return]', help: "says who uses the session's browser, takes it over from the agent, or gives it back",
    states: 'about_browser', needs: { role: 'approve', why: 'a message that takes over the browser or gives it back', bare: true },
  },
  approve: {
    usage: '/approve [number] [always]', help: 'allows the waiting call, once; "always" also adds a rule to session.json',
    states: 'reply_nothing_asked', whileAsked: 'answers',
  },
  deny: {
    usage: '/deny [number] [text]', help: 'denies the waiting call and tells the model, with the text',
    states: 'reply_nothing_asked', whileAsked: 'answers',
  },
  remind: {
    usage: '/remind <when> <what>', help: 'sends the text to this session at that time, such as "/remind tomorrow at 9 call the dentist"',
    states: 'reply_planned',
  },
  wait: {
    usage: '/wait <how long or until when>', help: 'finishes the call in flight, pauses the run, and resumes it by itself then',
    states: PAUSED, whileAsked: 'withdraws', stopsWork: true,
  },
  help: { usage: '/help', help: 'lists the commands', states: 'show_help' },
  unclear: {
    states: { none: 'start', running: 'hold_and_ask', waiting: 'resume', paused: 'ask_meaning', completed: 'start', failed: 'ask_meaning' },
    whileAsked: 'words',
  },
  data: {
    states: { none: 'keep_for_later', running: 'join', waiting: 'keep_for_later', paused: 'keep_for_later', completed: 'keep_for_later', failed: 'keep_for_later' },
  },
} as const satisfies Record<string, MessageInfo>;

/** What a message asks for: a row of the table. */
export type MessageKind = keyof typeof MESSAGES;

/** The row of a kind. */
export const messageInfo = (kind: MessageKind): MessageInfo => MESSAGES[kind];

/** The row of a command; undefined if there is none of that name. */
export function commandInfo(name: string | undefined): MessageInfo | undefined {
  const command = SESSION_COMMANDS.get(name ?? '');
  return command && messageInfo(command.kind);
}

/** What a kind of message does in a state of the session. */
export function actionIn(kind: MessageKind, status: MessageStanding): MessageAction {
  const { states } = messageInfo(kind);
  return typeof states === 'string' ? states : states[status];
}

/** What an action means for a run. */
export const actionInfo = (action: MessageAction): ActionInfo => MESSAGE_ACTIONS[action];

/** The commands, `/name`: how each is written and what it does, for `/help`, completion and the docs. */
export const SESSION_COMMANDS: ReadonlyMap<string, { kind: MessageKind; usage: string; help: string }> = new Map(
  (Object.keys(MESSAGES) as MessageKind[]).flatMap((kind) => {
    const { usage, help = '' } = messageInfo(kind);
    return usage === undefined ? [] : [[kind, { kind, usage, help }] as const];
  }),
);
