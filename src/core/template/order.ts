import { commandOf } from '../commands.ts';
import type { Message } from '../session.ts';

/** What `/run` was given: the template's name and the rest as typed. */
export type RunOrder = { name: string; args: string };

/** The order of a `/run` message; null for any other. */
export function runOrder(message: Pick<Message, 'text' | 'command'>): RunOrder | null {
  const command = commandOf(message);
  if (command?.name !== 'run') return null;
  const [, name = '', args = ''] = /^\s*(\S*)\s*([\s\S]*)$/.exec(command.rest) ?? [];
  return { name, args: args.trim() };
}

const ARG = /\s*([A-Za-z_]\w*)\s*=\s*(?:"((?:[^"\\]|\\[\s\S])*)"|“([^”]*)”|'([^']*)'|([^\s"'“]\S*)?)(?=\s|$)/y;

/** `city=Paris title="a b"` as values by name, or what could not be read. In double quotes a backslash keeps what follows it. */
export function argsIn(text: string): { values: Map<string, string> } | { fault: string } {
  const values = new Map<string, string>();
  const given = text.trim();
  for (ARG.lastIndex = 0; ARG.lastIndex < given.length; ) {
    const from = ARG.lastIndex;
    const found = ARG.exec(given);
    if (!found) {
      const came = given.slice(from).trim().slice(0, 60);
      return { fault: `wanted name=value, with quotes around a value that has spaces; came ${JSON.stringify(came)}` };
    }
    const [, name = '', double, curly, single, bare] = found;
    if (values.has(name)) return { fault: `${name} is given twice` };
    values.set(name, double?.replace(/\\([\s\S])/g, '$1') ?? curly ?? single ?? bare ?? '');
  }
  return { values };
}
