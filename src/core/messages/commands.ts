import { mapGet } from '../../base/collections.ts';
import { MODES, type Mode } from '../../protocol/settings/run-options.ts';
import type { Message, SaidMessage } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

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

/** What the model is to know of a message. */
export function saidMessage(message: Message): SaidMessage {
  const { from, as, attachments, files, template } = message;
  return {
    text: textWithoutCommand(message),
    ...(from !== undefined && { from }),
    ...(as && { as }),
    ...(attachments && { attachments }),
    ...(files && { files }),
    ...(template && 'name' in template && { template: template.name }),
  };
}
