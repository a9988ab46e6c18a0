import { mapGet } from '../../base/collections.ts';
import { MODES, type Mode } from '../../protocol/settings/run-options.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

/**
 * What a message asks for: the rows of the table in `message-actions.ts`. `unclear`: a person's words that may be an
 * order; `data`: nothing, since its sender may not give orders.
 */
export type MessageKind =
  | 'task'
  | 'run'
  | 'continue'
  | 'pause'
  | 'stop'
  | 'cancel'
  | 'undo'
  | 'restore'
  | 'new'
  | 'status'
  | 'plan'
  | 'mode'
  | 'model'
  | 'browser'
  | 'approve'
  | 'deny'
  | 'help'
  | 'unclear'
  | 'remind'
  | 'data';

type CommandInfo = { kind: MessageKind; usage: string; description: string };

/** All commands: the code, `/help` and the docs read this table. */
export const SESSION_COMMANDS: Readonly<Record<string, CommandInfo>> = {
  continue: {
    kind: 'continue',
    usage: '/continue [plan id] [note]',
    description: 'resumes the run, with an optional note',
  },
  pause: { kind: 'pause', usage: '/pause', description: 'finishes the call in flight, then pauses the run' },
  stop: { kind: 'stop', usage: '/stop', description: 'aborts the call in flight and pauses the run' },
  cancel: {
    kind: 'cancel',
    usage: '/cancel',
    description: 'aborts the call in flight and ends the plan and all background jobs',
  },
  undo: {
    kind: 'undo',
    usage: '/undo [--files]',
    description: 'reopens the step that was closed last; "--files" also restores what it changed in work/',
  },
  restore: {
    kind: 'restore',
    usage: '/restore <step|checkpoint> [path …]',
    description: 'makes the files in work/ what they were at the end of a step',
  },
  new: {
    kind: 'new',
    usage: '/new',
    description: 'archives the plan, ends background jobs and starts a new conversation',
  },
  status: { kind: 'status', usage: '/status', description: 'shows what is running and what was spent' },
  plan: {
    kind: 'plan',
    usage: '/plan [done|skip|add|move|reword|undo …]',
    description: 'shows the plan, or changes it like a hand edit',
  },
  run: {
    kind: 'run',
    usage: '/run <template> [name=value …]',
    description: 'runs a template from the folder templates/',
  },
  mode: {
    kind: 'mode',
    usage: '/mode [mode|default] [task]',
    description: 'shows the planning mode, sets it for new tasks, or runs this task in it',
  },
  model: {
    kind: 'model',
    usage: '/model [name|default]',
    description: 'shows the model, or sets it for new tasks: a name in `models`, or one that the endpoint knows',
  },
  browser: {
    kind: 'browser',
    usage: '/browser [take|return]',
    description: "says who uses the session's browser, takes it over from the agent, or gives it back",
  },
  approve: {
    kind: 'approve',
    usage: '/approve [number] [always]',
    description: 'allows the waiting call, once; "always" also adds a rule to session.json',
  },
  deny: {
    kind: 'deny',
    usage: '/deny [number] [text]',
    description: 'denies the waiting call and tells the model, with the text',
  },
  remind: {
    kind: 'remind',
    usage: '/remind <when> <what>',
    description: 'sends the text to this session at that time, such as "/remind tomorrow at 9 call the dentist"',
  },
  wait: {
    kind: 'pause',
    usage: '/wait <how long or until when>',
    description: 'finishes the call in flight, pauses the run, and resumes it by itself then',
  },
  help: { kind: 'help', usage: '/help', description: 'lists the commands' },
};

/**
 * The command of a message, from its `command` field or a first line that starts with a slash, and the text after it.
 */
export function parseCommand(message: Pick<Message, 'text' | 'command'>): { name: string; rest: string } | null {
  const command = typedCommand(message);
  // What other agents call it.
  return command?.name === 'resume' ? { ...command, name: 'continue' } : command;
}

function typedCommand(message: Pick<Message, 'text' | 'command'>): { name: string; rest: string } | null {
  if (message.command !== undefined) {
    const [name = '', ...words] = message.command.replace(/^\//, '').split(/\s+/);
    return { name: name.toLowerCase(), rest: [words.join(' '), message.text].filter(Boolean).join('\n') };
  }
  const found = /^\/([a-z][\w-]*)(?=\s|$)/i.exec(message.text.trimStart());
  if (!found?.[1]) return null;
  return { name: found[1].toLowerCase(), rest: message.text.trimStart().slice(found[0].length).trim() };
}

/** The command and the argument of a `/remind` or `/wait`; null for any other message. */
export function parseTimedCommand(
  message: Pick<Message, 'text' | 'command'>,
): { name: 'remind' | 'wait'; text: string } | null {
  const command = parseCommand(message);
  if (command?.name !== 'remind' && command?.name !== 'wait') return null;
  return { name: command.name, text: command.rest.trim() };
}

/** What `/mode` asks for. `set` to null: back to the configured mode. */
export type ModeCommand =
  | { is: 'show' }
  | { is: 'set'; mode: Mode | null }
  | { is: 'run'; mode: Mode; text: string }
  | { is: 'unknown'; name: string };

/** Parses a `/mode` message; null for any other. */
export function parseModeCommand(message: Pick<Message, 'text' | 'command'>): ModeCommand | null {
  const command = parseCommand(message);
  if (command?.name !== 'mode') return null;
  const [, name = '', text = ''] = /^\s*(\S*)\s*([\s\S]*)$/.exec(command.rest) ?? [];
  const wanted = name.toLowerCase();
  if (wanted === '') return { is: 'show' };
  if (wanted === 'default' && text === '') return { is: 'set', mode: null };
  const mode = MODES.find((one) => one === wanted);
  if (!mode) return { is: 'unknown', name };
  return text === '' ? { is: 'set', mode } : { is: 'run', mode, text };
}

/** A person's text without the command. A word like "continue" is kept as typed. */
export function textWithoutCommand(message: Pick<Message, 'text' | 'command' | 'template'>): string {
  if (message.template && 'text' in message.template) return message.template.text;
  const mode = parseModeCommand(message);
  if (mode?.is === 'run') return mode.text;
  const command = parseCommand(message);
  // What follows the number of the call is for the model.
  return command?.name === 'deny' ? command.rest.replace(/^\s*\d+\s*/, '') : (command?.rest ?? message.text);
}

/** `/undo --files`: the files of the step are restored as well. */
export const undoesFiles = (message: Pick<Message, 'text' | 'command'>): boolean =>
  /(?:^|\s)--files(?:\s|$)/.test(parseCommand(message)?.rest ?? '');

/** The words after `/restore`: a step or the number of a checkpoint, and paths below `work/`. */
export type RestoreCommand = { target: string; paths: string[] };

/**
 * Parses a `/restore` message; null for any other. A path with spaces is in quotes, or on a line of its own after the
 * first.
 */
export function parseRestoreCommand(message: Pick<Message, 'text' | 'command'>): RestoreCommand | null {
  const command = parseCommand(message);
  if (command?.name !== 'restore') return null;
  const [first = '', ...lines] = command.rest.trim().split('\n');
  const words = Array.from(first.matchAll(/"([^"]+)"|(\S+)/g), ([, quoted, plain]) => quoted ?? plain ?? '');
  const [target = '', ...paths] = words;
  return { target, paths: [...paths, ...lines.map((line) => line.trim()).filter(Boolean)] };
}

/** The arguments of `/run`: the template's name and the rest as typed. */
export type RunCommand = { name: string; args: string };

/** Parses a `/run` message; null for any other. */
export function parseRunCommand(message: Pick<Message, 'text' | 'command'>): RunCommand | null {
  const command = parseCommand(message);
  if (command?.name !== 'run') return null;
  const [, name = '', args = ''] = /^\s*(\S*)\s*([\s\S]*)$/.exec(command.rest) ?? [];
  return { name, args: args.trim() };
}

/** What the current run was asked for, as typed; a run that resumed before it had a plan keeps what began it. */
export const requestOfRun = ({ run, messages }: Pick<Session, 'run' | 'messages'>): string =>
  run?.request ?? textWithoutCommand(mapGet(messages, run?.message ?? '') ?? { text: '' }).trim();
