import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { onTestFinished } from 'vitest';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { readLiveOwner } from '../../src/store/workspace/owner-file.ts';
import { endJobs } from '../tools/tool-setup.ts';
import { runHere } from './agentctl-here.ts';
import { inFolder, until } from './daemon.ts';
import { type DaemonHere, serveHere, TEST_SETTINGS } from './daemon-here.ts';

const AGENTCTL = resolve('dist/agentctl.js');
const AGENTD = resolve('dist/agentd.js');

type Ran = { code: number | null; out: string; err: string };

/** A workspace that is gone after the test, its daemon with it, and the built programs to use it with. */
export type Setup = {
  root: string;
  /** Runs `agentctl --workspace <root> …words`; `input` is its standard input, which is empty otherwise. */
  ctl(words: string[], input?: string | Buffer): Promise<Ran>;
  /** The same in this process, where the program itself is not what is tested: it costs milliseconds. */
  here(words: string[]): Promise<Ran>;
  /** What a shell would offer after these words. */
  complete(...words: string[]): Promise<Ran>;
  /** Starts `agentd` in the foreground and waits for its READY line. */
  serve(...flags: string[]): Promise<{ child: ChildProcess; out(): string; ended: Promise<Ran> }>;
  /** Serves the workspace in this process, where the program and its end are not what is tested. */
  serveHere(...flags: string[]): Promise<DaemonHere>;
  path(...parts: string[]): string;
  /** Waits until there is a file of that path. */
  has(path: string): Promise<void>;
  /** Waits until a session has published a reply: its run has ended by then, and a call that waits is listed. */
  replied(session: string): Promise<void>;
};

export function setup(): Setup {
  const folder = fs.mkdtempSync(join(tmpdir(), 'agentd-cli-'));
  const root = join(folder, 'ws');
  const children: ChildProcess[] = [];
  onTestFinished(() => {
    for (const child of children) child.kill('SIGKILL');
    const sessions = join(root, '.sessions');
    for (const name of fs.existsSync(sessions) ? fs.readdirSync(sessions) : []) endJobs(join(sessions, name, 'jobs'));
    const owner = readLiveOwner(workspacePaths(root));
    if (owner && owner.pid !== process.pid) process.kill(owner.pid, 'SIGKILL');
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  const run = (program: string, words: string[], flags = ['--workspace', root]) => {
    const env = { ...bareEnv(), HOME: folder, NO_COLOR: '1' };
    const child = spawn(process.execPath, [program, ...flags, ...words], { env, cwd: folder });
    children.push(child);
    return child;
  };
  return {
    root,
    path: (...parts) => join(root, ...parts),
    async has(path) {
      while (!fs.existsSync(join(root, path))) await new Promise((later) => setTimeout(later, 20));
    },
    async replied(session) {
      const isReply = (name: string) => /\.(?:json|md)$/.test(name);
      const outbox = join(root, '.sessions', session, 'outbox');
      await until(() => inFolder(outbox).some(isReply), `a reply in ${session}`);
    },
    async ctl(words, input = '') {
      const child = run(AGENTCTL, words);
      child.stdin.on('error', () => {});
      child.stdin.end(input);
      return outcome(child).ended;
    },
    here: (words) => runHere([...words, '--workspace', root]),
    complete: (...words) =>
      outcome(run(AGENTCTL, ['--get-yargs-completions', 'agentctl', '--workspace', root, ...words], [])).ended,
    serveHere(...flags) {
      prepare(root);
      return serveHere(root, flags, { ...bareEnv(), HOME: folder });
    },
    async serve(...flags) {
      prepare(root);
      const child = run(AGENTD, flags);
      const { out, ended } = outcome(child);
      await new Promise<void>((ready, failed) => {
        child.stdout.on('data', () => out().includes('\n') && ready());
        void ended.then(({ code, err }) => failed(new Error(`agentd ended (${code}): ${err}`)));
      });
      return { child, out, ended };
    },
  };
}

function prepare(root: string): void {
  fs.mkdirSync(root, { recursive: true, mode: 0o700 });
  const settings = join(root, 'agentd.json');
  if (!fs.existsSync(settings)) fs.writeFileSync(settings, JSON.stringify(TEST_SETTINGS));
}

/** Nothing of the developer's own settings reaches the programs. */
function bareEnv(): NodeJS.ProcessEnv {
  const env = { ...process.env };
  for (const name of Object.keys(env)) if (/^(?:OPENAI_|AGENTD_|FORCE_COLOR)/.test(name)) delete env[name];
  return env;
}

function outcome(child: ReturnType<typeof spawn>): { out(): string; ended: Promise<Ran> } {
  let [out, err] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const ended = new Promise<Ran>((done) => child.once('close', (code) => done({ code, out, err })));
  return { out: () => out, ended };
}

/** A workspace that is served in this process by a model with these answers, or by one that is built in. */
export async function served(answers: object[] | 'runbook' = 'runbook'): Promise<Setup> {
  const at = setup();
  await at.serveHere('--model', answers === 'runbook' ? answers : script(at, answers));
  return at;
}

/** Writes a script for `--model scripted:<file>` and answers that flag's value. */
export function script({ root }: Setup, answers: object[]): string {
  const file = join(root, '..', 'script.json');
  fs.writeFileSync(file, JSON.stringify(answers));
  return `scripted:${file}`;
}

/** Every file below a folder with its bytes, by its path in there. */
export function filesIn(folder: string): Record<string, string> {
  const names = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const files = names.filter((name) => fs.statSync(join(folder, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, fs.readFileSync(join(folder, name), 'utf8')]));
}
