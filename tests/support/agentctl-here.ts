import * as fs from 'node:fs';
import { join, resolve } from 'node:path';
import { vi } from 'vitest';
import type { CliServices } from '../../src/frontends/cli/common/command.ts';
import { runAgentctl } from '../../src/frontends/cli/index.ts';
import { temporaryFolder } from './temporary.ts';

type Ran = { code: number; out: string; err: string };

/** A workspace for command lines that run in this process: no program is started, so it costs milliseconds. */
export type Bench = {
  root: string;
  path(...parts: string[]): string;
  /** Writes a file of the workspace, with the folders it is in. */
  write(path: string, text: string): void;
  /** Runs `agentctl --workspace <root> …words`. */
  ctl(...words: string[]): Promise<Ran>;
};

export function bench(): Bench {
  const root = temporaryFolder('cli');
  const path = (...parts: string[]) => join(root, ...parts);
  return {
    root,
    path,
    write(file, text) {
      fs.mkdirSync(join(path(file), '..'), { recursive: true });
      fs.writeFileSync(path(file), text);
    },
    ctl: (...words) => runHere([...words, '--workspace', root]),
  };
}

/** What `src/agentctl.ts` hands to a command line. */
const SERVICES: CliServices = {
  program: resolve('dist/agentd.js'),
  doctor: async (question) => (await import('../../src/main/doctor.ts')).runDoctor(question),
  jobs: async (folder, stop) => (await import('../../src/main/command-services.ts')).listJobs(folder, stop),
  login: async (question) => (await import('../../src/main/command-services.ts')).logInAtServer(question),
};

/** Runs one command line with what it prints caught. */
export async function runHere(argv: string[]): Promise<Ran> {
  const printed = { out: '', err: '' };
  const catching = (stream: NodeJS.WriteStream, where: keyof typeof printed) =>
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      printed[where] += String(text);
      return true;
    });
  const logged = vi.spyOn(console, 'log').mockImplementation((text) => {
    printed.out += `${text}\n`;
  });
  const spies = [catching(process.stdout, 'out'), catching(process.stderr, 'err'), logged];
  const before = [process.stdout, process.stderr].map((stream) => [stream, stream.listeners('error')] as const);
  try {
    const code = await runAgentctl(argv, SERVICES);
    // It may have waited for nothing: who runs it again and again is to let everything else in this process have a turn.
    await new Promise(setImmediate);
    return { code, ...printed };
  } finally {
    for (const spy of spies) spy.mockRestore();
    for (const [stream, listeners] of before)
      for (const added of stream.listeners('error'))
        if (!listeners.includes(added)) stream.removeListener('error', added as () => void);
  }
}
