import {
  actionIn,
  MESSAGE_ACTIONS,
  MESSAGES,
  type MessageKind,
  SESSION_COMMANDS,
} from '../../src/core/messages/message-table.ts';

/** The commands, and what each kind of message does in each state, from the tables that the code uses. */
export function commandsPage(): string {
  const commands = Array.from(
    SESSION_COMMANDS.values(),
    ({ usage, help }) => `| \`${usage.replaceAll('|', '\\|')}\` | ${help} |`,
  );
  const states = Object.keys(MESSAGES.task.states) as Array<keyof typeof MESSAGES.task.states>;
  const rows = (Object.keys(MESSAGES) as MessageKind[]).map((kind) => ({
    kind,
    cells: states.map((state) => MESSAGE_ACTIONS[actionIn(kind, state)].meaning),
  }));
  const isSameInAll = ({ cells }: { cells: unknown[] }) => new Set(cells).size === 1;
  return [
    '# Commands and messages',
    '',
    'Generated from `src/core/messages/message-table.ts` by `npm run docs`.',
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
