import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startOpenAI } from '../../tests/support/openai-server.ts';
import { until } from './cluster.ts';

const MARK = /@task-(\w[\w-]*)/;
const MAX_WAIT_MS = 60_000;

/** What sessions did, by a file beside the workspace to which each of their commands appends a line of its own. */
export type Tasks = {
  /** The endpoint of a model that has each task write some lines, one command each. */
  url: string;
  /** Sends a task to a new session: that many commands of so many seconds each. Returns its folder. */
  send(name: string, commands: number, seconds?: number): string;
  /** Lines of a session, in order. */
  lines(session: string): string[];
  /** Resolves with the time of the first request for the session after now. */
  nextRequest(session: string): Promise<number>;
  /** Waits for the replies of these sessions; `wrong` says what is not as it must be. */
  ended(sessions: readonly string[]): Promise<void>;
  /** Tasks without exactly one reply, commands that ran twice, and those that did not run though nobody said so. */
  wrong(sessions?: readonly string[]): string[];
  /** The tasks so far are no longer checked. */
  forget(): void;
};

type Task = { folder: string; commands: number; seconds: number };

export async function openTasks(root: string, file: string): Promise<Tasks> {
  writeFileSync(file, '');
  let tasks = new Map<string, Task>();
  const known = new Map<string, Task>();
  const waiting = new Map<string, Array<(at: number) => void>>();
  const server = await startOpenAI(({ body, at }) => {
    const name = MARK.exec(JSON.stringify(body.messages))?.[1] ?? '';
    for (const one of waiting.get(name)?.splice(0) ?? []) one(at);
    const { commands = 0, seconds = 0 } = known.get(name) ?? {};
    const done = body.messages.filter(({ role }) => role === 'tool').length;
    if (done >= commands) return { text: '[Done]' };
    const args = JSON.stringify({ command: `echo ${name}:${done + 1} >> ${file}; sleep ${seconds}` });
    return { text: done === 0 ? '[Step] Write the lines' : '', calls: [{ id: `c${done}`, name: 'shell', args }] };
  });
  const all = (): string[] => readFileSync(file, 'utf8').split('\n').filter(Boolean);
  const replies = ({ folder }: Task): string[] =>
    existsSync(join(folder, 'outbox')) ? readdirSync(join(folder, 'outbox')).filter((one) => one.endsWith('.md')) : [];
  /** Commands of which the model was told that they may or may not have run. */
  const unknown = ({ folder }: Task): number => {
    const logs = readdirSync(join(folder, 'events')).filter((one) => one.endsWith('.jsonl'));
    const events = logs.flatMap((one) => readFileSync(join(folder, 'events', one), 'utf8').split('\n'));
    return events.filter((event) => event.includes('"outcome":"unknown"')).length;
  };
  return {
    url: server.url,
    send(name, commands, seconds = 0.2) {
      const folder = join(root, '.sessions', name);
      const task = { folder, commands, seconds };
      tasks.set(name, task);
      known.set(name, task);
      mkdirSync(join(folder, 'inbox', '.tmp'), { recursive: true });
      writeFileSync(join(folder, 'inbox', '.tmp', '1.md'), `Write the lines of @task-${name}\n`);
      renameSync(join(folder, 'inbox', '.tmp', '1.md'), join(folder, 'inbox', '1.md'));
      return folder;
    },
    lines: (session) => all().filter((line) => line.startsWith(`${session}:`)),
    nextRequest: (session) =>
      new Promise((resolve) => waiting.set(session, [...(waiting.get(session) ?? []), resolve])),
    async ended(sessions) {
      for (const name of sessions) {
        const task = tasks.get(name);
        await until(
          () => task !== undefined && replies(task).length > 0,
          `the reply of ${name}`,
          undefined,
          MAX_WAIT_MS,
        );
      }
    },
    wrong(sessions = [...tasks.keys()]) {
      const lines = all();
      return [...tasks]
        .filter(([name]) => sessions.includes(name))
        .flatMap(([name, task]) => {
          const own = lines.filter((line) => line.startsWith(`${name}:`));
          const files = replies(task);
          return [
            ...(files.length === 1 ? [] : [`${name} has ${files.length} replies: ${files.join(', ')}`]),
            ...(new Set(own).size === own.length ? [] : [`${name} ran a command twice: ${own.join(' ')}`]),
            ...(own.length + unknown(task) >= task.commands
              ? []
              : [`${name} ran ${own.length} of ${task.commands} commands, and ${unknown(task)} may have run`]),
          ];
        });
    },
    forget() {
      tasks = new Map();
    },
  };
}
