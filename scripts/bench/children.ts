import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import ts from 'typescript';
import { type Vitals, vitalsOf } from './process.ts';

const AGENTD = resolve('dist/agentd.js');
const AGENTCTL = resolve('dist/agentctl.js');

const alive = new Set<ChildProcess>();
// A bench that fails must not leave its daemon behind.
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

export type Child = Vitals & {
  /** When it was started, by the clock of the bench. */
  began: number;
  /** Its first line. */
  said: string;
  /** Milliseconds from the command to its first line. */
  readyAfter: number;
  /** Sends one line of input and waits for one line of output. */
  ask(line: string): Promise<string>;
  stop(): Promise<void>;
  /** Ends it by SIGKILL. */
  kill(): Promise<void>;
};

/** Starts the built daemon as a person would; it is READY when this resolves. */
export function startAgentd(workspace: string, url: string, nodeFlags: string[]): Promise<Child> {
  const flags = ['--workspace', workspace, '--base-url', url, '--model', 'bench', '--log-level', 'warn'];
  return start([...nodeFlags, AGENTD, ...flags]);
}

/** Starts `agentctl serve` with the OpenAI API; returns its URL and token too. */
export async function startServer(
  workspace: string,
  nodeFlags: string[] = [],
): Promise<Child & { url: string; token: string }> {
  const child = await start([...nodeFlags, AGENTCTL, '--workspace', workspace, 'serve', '--port', '0', '--openai']);
  const token = readFileSync(join(workspace, '.agentd', 'token'), 'utf8').trim();
  return { ...child, url: child.said.replace('SERVING ', ''), token };
}

/**
 * Starts a floor, one of the `floor-*.ts` programs beside this file. It runs as plain JavaScript, without the loader
 * that this bench runs under, which would add to its start time and memory.
 */
export function startFloor(program: URL, ...args: string[]): Promise<Child> {
  return start(floorWords(program, args));
}

function floorWords(program: URL, args: string[]): string[] {
  const { outputText } = ts.transpileModule(readFileSync(program, 'utf8'), {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
  });
  return ['--input-type=module', '--eval', outputText, ...args];
}

export type Terminal = {
  type(text: string): void;
  /** Resolves with the time at which a text appeared on the screen; it must not be there already. */
  shows(text: string): Promise<number>;
  stop(): Promise<void>;
};

/** `agentctl chat` in a terminal. */
export const startChat = (workspace: string, session: string): Terminal =>
  startInTerminal([AGENTCTL, '--workspace', workspace, 'chat', session], '/quit\r');

/** A floor in a terminal. */
export const startFloorInTerminal = (program: URL, ...args: string[]): Terminal =>
  startInTerminal(floorWords(program, args), END_OF_INPUT);

const END_OF_INPUT = '\u0004';

/** Runs a program in a terminal of `script` (util-linux) and reads its screen. Typing `leave` ends it. */
function startInTerminal(words: string[], leave: string): Terminal {
  const command = [process.execPath, ...words].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], SHELL: '/bin/sh', TERM: 'xterm' };
  const child = spawn('script', ['-qefc', `exec ${command}`, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  alive.add(child);
  let screen = '';
  let isOver = false;
  const waiting = new Set<() => void>();
  const look = () => {
    for (const one of waiting) one();
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
    look();
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve())).then(() => {
    alive.delete(child);
    isOver = true;
    look();
  });
  return {
    type: (text) => void child.stdin.write(text),
    shows: (text) =>
      new Promise((resolve, reject) => {
        const check = () => {
          const isThere = screen.includes(text);
          if (!isThere && !isOver) return;
          waiting.delete(check);
          if (!isThere) return reject(new Error(`Expected "${text}" in the terminal. It ended with: ${screen}`));
          resolve(performance.now());
          screen = '';
        };
        waiting.add(check);
        check();
      }),
    stop() {
      child.stdin.write(leave);
      return ended;
    },
  };
}

async function start(args: string[]): Promise<Child> {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'] };
  const began = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  alive.add(child);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  void ended.then(() => alive.delete(child));
  const lines = createInterface({ input: child.stdout });
  const line = (): Promise<string> =>
    new Promise((resolve, reject) => {
      lines.once('line', resolve);
      void ended.then(() => reject(new Error(`${args.at(0)} ended too early`)));
    });
  const end = (signal: NodeJS.Signals) => () => {
    child.kill(signal);
    return ended;
  };
  const said = await line();
  return {
    ...vitalsOf(child.pid),
    began,
    said,
    readyAfter: performance.now() - began,
    ask(text) {
      const answer = line();
      child.stdin.write(`${text}\n`);
      return answer;
    },
    stop: end('SIGTERM'),
    kill: end('SIGKILL'),
  };
}
