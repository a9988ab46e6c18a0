import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isDaemonBlock } from '../../src/protocol/session/prompt-tags.ts';
import { encodeLineWithCrc, parseCheckedLine } from '../../src/store/event-log/log-lines.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { readLiveOwner } from '../../src/store/workspace/owner-file.ts';
import { filesIn, type Setup, setup } from '../support/agentctl.ts';
import { inFolder, until } from '../support/daemon.ts';
import { buildOlderRelease, runProgram, whyNoOlderRelease } from '../support/older-release.ts';
import type { OpenAIServer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';

const why = whyNoOlderRelease();
if (why) console.warn(`SKIPPED: upgrade from 0.1.0 ${why}`);

/** How the rehearsal names it: by commit too, since this version has the same number. */
const BUILD = '0.1.0 (e5cde7ea8c, 2026-11-28)';
const CALLS = 4;

/**
 * A workspace and the programs of both versions. The model plans two steps and makes four calls for each message; each
 * call adds a line to `led`, so that one that ran twice, or not, is seen.
 */
async function bothVersions(settings: object = {}) {
  const older = buildOlderRelease();
  const at = setup();
  const server = await modelServer(({ body }) => {
    const last = body.messages.findLastIndex(
      ({ role, content }) => role === 'user' && /TASK /.test(content ?? '') && !isDaemonBlock(content ?? ''),
    );
    const task = /TASK (\w+)/.exec(body.messages[last]?.content ?? '')?.[1] ?? '';
    const ran = body.messages.slice(last).filter(({ role }) => role === 'tool').length;
    if (task === '') return { text: 'Hello.' };
    if (ran === CALLS) return { text: 'All of it is written. [Done]' };
    const text = ['[Step] Write the first half\n[Step] Write the second half\nI begin.', 'On.', 'Half. [Done]', 'On.'][
      ran
    ];
    return {
      text: text ?? '',
      calls: [{ name: 'shell', args: JSON.stringify({ command: `sleep 0.2; echo ${task}-${ran} >> led` }) }],
    };
  });
  fs.mkdirSync(at.root, { recursive: true, mode: 0o700 });
  const config = (more: object) =>
    fs.writeFileSync(
      at.path('agentd.json'),
      JSON.stringify({ sandbox: 'none', approvals: 'auto', disk: { reserve_mb: 1 }, ...more }),
    );
  config(settings);
  const flags = ['--base-url', server.url, '--model', 'scripted'];
  return { at, server, config, flags, old: (...words: string[]) => runProgram(older.agentctl, at.root, words) };
}

/** Drops a task into each session. */
function dropTask(at: Setup, sessions: readonly string[], task: string): void {
  for (const name of sessions) {
    const inbox = at.path('.sessions', name, 'inbox');
    fs.mkdirSync(inbox, { recursive: true });
    fs.writeFileSync(join(inbox, `.${task}`), `TASK ${task}\n`);
    fs.renameSync(join(inbox, `.${task}`), join(inbox, `${task}.md`));
  }
}

const replies = (at: Setup, name: string) =>
  inFolder(at.path('.sessions', name, 'outbox')).filter((one) => one.endsWith('.md'));
const allAnswered = (at: Setup, sessions: readonly string[], task: string) =>
  until(() => sessions.every((name) => replies(at, name).includes(`${task}.md`)), `all replies to ${task}`, 90_000);
const midway = (server: OpenAIServer, from: number, calls: number) => server.arrived(from + calls);

/** What each session must have: every call of every task once, in order; one reply a task; the plan completed. */
function expectWhole(at: Setup, sessions: readonly string[], tasks: readonly string[]): void {
  const lines = tasks.flatMap((task) => Array.from({ length: CALLS }, (_, n) => `${task}-${n}`));
  for (const name of sessions) {
    const session = at.path('.sessions', name);
    expect(fs.readFileSync(join(session, 'work/led'), 'utf8').trimEnd().split('\n'), name).toEqual(lines);
    expect(replies(at, name).sort(), name).toEqual(tasks.map((task) => `${task}.md`).sort());
    expect(JSON.parse(fs.readFileSync(join(session, 'plan.json'), 'utf8')), name).toMatchObject({
      status: 'completed',
      steps: [{ status: 'completed' }, { status: 'completed' }],
    });
    const log = fs.readFileSync(join(session, 'events.jsonl'), 'utf8');
    expect(log, name).not.toContain('"type":"plan.edited"');
  }
}

const SESSIONS = Array.from({ length: 50 }, (_, n) => `s${n + 1}`);

test.skipIf(why)(
  `50 sessions at work go through an upgrade from 0.1.0 and back, and no call runs twice ${why}`,
  async () => {
    const { at, server, config, flags, old } = await bothVersions();
    expect(await old('start', ...flags)).toMatchObject({ code: 0 });
    dropTask(at, SESSIONS, 'one');
    await midway(server, 0, 90);
    // No checkpoints: then nothing is written that 0.1.0 cannot read.
    config({ checkpoints: { keep: 0 } });
    const before = readLiveOwner(workspacePaths(at.root))?.pid;
    const rehearsed = await at.ctl(['upgrade', '--rehearse']);
    expect(rehearsed).toMatchObject({ code: 0 });
    expect(rehearsed.out).toContain(`Going back to the older build ${BUILD} is possible for all sessions`);
    expect(readLiveOwner(workspacePaths(at.root))?.pid).toBe(before);
    expect(await at.ctl(['upgrade'])).toMatchObject({ code: 0 });
    expect(readLiveOwner(workspacePaths(at.root))?.pid).not.toBe(before);
    await allAnswered(at, SESSIONS, 'one');
    expectWhole(at, SESSIONS, ['one']);
    const asked = server.requests.length;
    dropTask(at, SESSIONS, 'two');
    await midway(server, asked, 90);
    expect(JSON.parse((await at.ctl(['upgrade', '--rehearse', '--json'])).out)).toMatchObject({ fit: true, newer: [] });
    expect(await at.ctl(['stop'])).toMatchObject({ code: 0 });
    config({});
    expect(await old('start', ...flags)).toMatchObject({ code: 0 });
    await allAnswered(at, SESSIONS, 'two');
    expectWhole(at, SESSIONS, ['one', 'two']);
    expect(await old('stop')).toMatchObject({ code: 0 });
  },
  240_000,
);

test.skipIf(why)(
  `0.1.0 changes nothing in a session with an event that it does not know, which the rehearsal names ${why}`,
  async () => {
    const { at, flags, old } = await bothVersions();
    await at.ctl(['start', ...flags]);
    dropTask(at, ['new'], 'one');
    await allAnswered(at, ['new'], 'one');
    await at.ctl(['stop']);
    const rehearsed = JSON.parse((await at.ctl(['upgrade', '--rehearse', '--json'])).out);
    expect(rehearsed).toMatchObject({ fit: true, release: BUILD, newer: [{ session: 'new', what: 'work.saved' }] });
    const unread = rehearsed.newer[0].seq;
    const log = fs.readFileSync(at.path('.sessions/new/events.jsonl'), 'utf8').split('\n');
    expect(JSON.parse(log[unread - 1] ?? '')).toMatchObject({ seq: unread, type: 'work.saved' });
    dropTask(at, ['new', 'other'], 'two');
    const files = filesIn(at.path('.sessions/new'));
    await old('start', ...flags);
    await allAnswered(at, ['other'], 'two');
    expect((await old('status')).out).toContain('written by another version');
    await old('stop');
    expect(filesIn(at.path('.sessions/new'))).toEqual(files);
    await at.ctl(['start', ...flags]);
    await allAnswered(at, ['new'], 'two');
    expectWhole(at, ['new'], ['one', 'two']);
  },
  120_000,
);

test('what a newer version wrote is named, and an upgrade to this one then changes nothing', async () => {
  const at = setup();
  const daemon = await at.serveHere('--model', 'runbook');
  await at.here(['send', 'demo', '1. Say it: `echo hi`', '--wait']);
  await daemon.stop();
  const log = at.path('.sessions/demo/events.jsonl');
  const last = parseCheckedLine(Buffer.from(fs.readFileSync(log, 'utf8').trimEnd().split('\n').at(-1) ?? ''))?.value;
  const seq = Object(last).seq + 1;
  fs.appendFileSync(log, encodeLineWithCrc({ ...Object(last), seq, type: 'step.dreamed' }));
  const files = filesIn(at.root);
  const refused = await at.here(['upgrade']);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('Nothing was changed') });
  expect(refused.out).toMatch(/✗ \.sessions\/demo\/events\.jsonl: .*"step\.dreamed", written by another version/);
  expect(filesIn(at.root)).toEqual(files);
});
