import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { everything } from '../support/all.ts';
import { ground, inFolder, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';

/** 12,000 with AGENTD_TEST_ALL=1, `FLOOD=100000` by hand; as many as make the daemon go through the inbox page by page. */
const MESSAGES = Number(process.env['FLOOD'] ?? (everything ? 12_000 : 5000));
const REFUSED = MESSAGES / 5;

/** The most memory a process ever held, in MB; Linux only. */
const peakOf = (pid: number | undefined) =>
  Number(/VmHWM:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1000;

test.skipIf(process.platform !== 'linux')(
  'thousands of files in one inbox keep no other session waiting, fill no memory, and do not drown a command (needs /proc)',
  async () => {
    const server = await startOpenAI((request) => ({ text: `You said: ${request.userText}` }));
    const on = ground();
    on.sh('flood', 'mkdir inbox');
    on.sh('links', 'mkdir inbox');
    on.sh('other', 'mkdir inbox');
    const { process: daemon } = await on.start(['--base-url', server.url, '--model', 'echo']);
    writeFileSync(join(on.session('other'), 'inbox', 'first.md'), 'hello');
    await on.file('other', 'outbox/first.md');
    const before = peakOf(daemon.pid);
    for (let n = 0; n < MESSAGES; n++) {
      writeFileSync(join(on.session('flood'), 'inbox', `${n}.md`), `task ${n}`);
      if (n < REFUSED) symlinkSync('/nowhere', join(on.session('links'), 'inbox', `${n}.md`));
      // The endpoint lives in this process.
      if (n % 100 === 0) await new Promise(setImmediate);
    }
    await until(() => inFolder(join(on.session('flood'), 'done')).length > 0, 'the first message', 60_000);
    const waits: number[] = [];
    const timed = async (session: string, name: string, text: string) => {
      const began = Date.now();
      writeFileSync(join(on.session(session), 'inbox', name), text);
      await until(() => inFolder(join(on.session(session), 'outbox')).includes(name), `an answer to ${name}`);
      waits.push(Date.now() - began);
    };
    for (let n = 0; n < 5; n++) await timed('other', `hello-${n}.md`, 'hello');
    await timed('flood', 'how-is-it.md', '/status');
    await timed('other', 'again.md', 'hello');
    const grown = peakOf(daemon.pid) - before;
    console.log(`answered after ${waits.join(', ')} ms; ${Math.round(grown)} MB more than before the flood`);
    expect(grown).toBeLessThan(300);
    const taken = inFolder(join(on.session('flood'), 'done')).length;
    // Nobody waited for the end of the flood.
    expect(taken).toBeLessThan(MESSAGES);
    const answered = inFolder(join(on.session('flood'), 'outbox')).length;
    expect(taken - answered).toBeLessThanOrEqual(256 + 64);
    // In this order: a file that moves meanwhile is counted twice, not left out.
    const waiting = inFolder(join(on.session('flood'), 'inbox')).length;
    expect(waiting + inFolder(join(on.session('flood'), 'done')).length).toBeGreaterThanOrEqual(MESSAGES);
    await server.close();
    daemon.kill('SIGKILL');
    await rm(on.root, { recursive: true, force: true, maxRetries: 5 });
  },
  240_000,
);
