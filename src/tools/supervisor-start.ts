import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { coverInherited } from './inherited.ts';
import { SUPERVISOR } from './supervisor.ts';

/** What a supervisor is started with: its arguments, and where and in which environment the command runs. */
export type Start = { words: string[]; cwd: string; env: NodeJS.ProcessEnv };

/** How the first process of a supervisor ended; nothing of both where nobody saw it. */
export type Gone = { code: number | null; signal: NodeJS.Signals | null };

/** A line that it said. */
export type Hear = (word: string, numbers: number[]) => void;

/** A supervisor at work, as the daemon has it. */
export type Supervisor = {
  /** Each line it says: a word, and numbers. One listener, from the start on. */
  hear(line: Hear): void;
  /** Rejects where nothing was started. */
  gone: Promise<Gone>;
  /** All was heard: it need not keep anything. */
  letGo(): void;
  /** Nobody listens any more. Where it was not let go, it keeps what still comes. */
  leave(): void;
};

/** What the lines on descriptor 3 are to a reader: whole ones, as they come. `call` is the number before each, if any. */
export function readLines(control: Socket, line: (call: number, word: string, numbers: number[]) => void): void {
  let said = '';
  control.on('data', (data: Buffer) => {
    const lines = (said + data.toString('latin1')).split('\n');
    said = lines.pop() ?? '';
    for (const one of lines) {
      const [call = '', word = '', ...numbers] = one.split(' ');
      line(Number(call), word, numbers.map(Number));
    }
  });
}

/** The other end of descriptor 3. What its reader had not read when it went is an error here, and nobody's loss. */
export function controlOf(stdio: ReadonlyArray<unknown>): Socket {
  const control = stdio[3];
  if (!(control instanceof Socket)) throw new Error('A supervisor without a socket.');
  control.on('error', () => undefined);
  return control;
}

const STDIO: Array<'ignore' | 'pipe'> = ['ignore', 'ignore', 'ignore', 'pipe'];

/** What every process is started with that waits for words on descriptor 3: a session of its own and nothing of this process. */
export const apart = () => ({ detached: true, stdio: [...STDIO, ...coverInherited(STDIO.length)] });

/** A supervisor that this process forks itself, where there is no nursery. */
export function spawned({ words, cwd, env }: Start): Supervisor {
  const child = spawn('/bin/sh', ['-c', SUPERVISOR, 'agentd-call', ...words], { cwd, env, ...apart() });
  const control = controlOf(child.stdio);
  return {
    hear: (line) => readLines(control, (_, word, numbers) => line(word, numbers)),
    gone: new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => resolve({ code, signal }));
    }),
    letGo: () => control.write('done\n'),
    leave: () => control.destroy(),
  };
}
