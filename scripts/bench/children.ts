import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
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

/** Starts `agentctl otel` for a collector that takes everything. */
export async function startFollower(workspace: string): Promise<Pick<Child, 'stop'>> {
  const collector = createServer((request, response) => request.resume().on('end', () => response.end()));
  await once(collector.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${Object(collector.address()).port}`;
  const child = spawn(process.execPath, [AGENTCTL, '--workspace', workspace, 'otel', '--endpoint', url]);
  alive.add(child);
  const ended = once(child, 'close').then(() => collector.close());
  const stop = () => {
    child.kill('SIGTERM');
    return ended.then(() => {});
  };
  return { stop };
}

/**
 * Starts a floor, one of the `floor-*.ts` programs beside this file. It runs as plain JavaScript, without the loader
 * that this bench runs under, which would add to its start time and memory.
 */
export function startFloor(program: URL, ...args: string[]): Promise<Child> {
  const { outputText } = ts.transpileModule(readFileSync(program, 'utf8'), {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
  });
  return start(['--input-type=module', '--eval', outputText, ...args]);
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
