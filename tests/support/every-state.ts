import * as fs from 'node:fs';
import { expect } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { type Setup, script, setup } from './agentctl.ts';
import { until } from './daemon.ts';

const call = (name: string, args: object) => ({ calls: [{ name, args }] });
const STEPS = '[Step] Look around\n[Step] Tell what is there';
/** Longer than any test. */
const SILENT = { delay_ms: 600_000 };

/** What the model says in each session, by a word of its task. */
const ANSWERS = [
  ...['WORK', 'HALT ME', 'LEAVE IT'].flatMap((when) => [
    { when, text: STEPS, ...call('shell', { command: 'true' }) },
    { when, text: 'slow', ...SILENT },
  ]),
  { when: 'CALL', text: '[Step] Fetch it', ...call('web_fetch', { url: 'http://127.0.0.1:9/' }) },
  { when: 'ASK', text: '[Step] Ask', ...call('ask_user', { question: 'Red or blue?', choices: ['red', 'blue'] }) },
  { when: 'LIMIT', text: STEPS, ...call('shell', { command: 'true' }) },
  { when: 'DONE', text: '[Step] Look around', ...call('shell', { command: 'true' }) },
  { when: 'DONE', text: 'Looked. [Done]' },
  { when: 'FAIL', text: '[Step] Look around', ...call('shell', { command: 'true' }) },
  { when: 'FAIL', status: 401, text: 'no such key' },
  { when: 'FAMILY', ...call('spawn', { task: 'Tell what is there.' }) },
  { when: 'FAMILY', text: 'All is told.' },
  { text: 'Hello.', repeat: true },
];

/** Sessions in every state, with the daemon that brought them there. The name says the state. */
export async function everyState(): Promise<Setup & { stop(): Promise<void> }> {
  const at = setup();
  fs.mkdirSync(at.path('.sessions/new/inbox'), { recursive: true });
  fs.mkdirSync(at.path('templates'));
  fs.writeFileSync(at.path('templates/two.md'), '1. Greet {{who}}\n2. Leave\n'.replace(/^/, FRONT_MATTER));
  const settings = { sandbox: 'none', disk: { reserve_mb: 1 }, permissions: [{ allow: 'shell' }] };
  fs.writeFileSync(at.path('agentd.json'), JSON.stringify(settings));
  const daemon = await at.serveHere('--model', script(at, ANSWERS));
  const limit = ['LIMIT', '--iterations', '1'];
  for (const [name, ...words] of [
    ...[
      ['running', 'WORK'],
      ['approval', 'CALL'],
      ['question', 'ASK'],
      ['limit', ...limit],
      ['stopped', 'HALT ME'],
    ],
    ...[
      ['done', 'DONE'],
      ['talked', 'hello'],
      ['failed', 'FAIL'],
      ['cancelled', 'LEAVE IT'],
      ['family', 'FAMILY'],
    ],
    ...[
      ['settings', ...limit],
      ['planfile', ...limit],
      ['inboxfile', 'DONE'],
      ['damaged', 'DONE'],
    ],
    ...[
      ['Mein Büro 🚀', ...limit],
      ['gone', 'DONE'],
    ],
  ])
    await at.here(['send', name ?? '', ...words]);
  await at.here(['run', 'template', 'two', 'who=Ana']);
  for (const name of openClient(at.root).newestSessions(100)) if (!UNANSWERED.has(name)) await at.replied(name);
  for (const name of ['running', 'stopped', 'cancelled'])
    await until(
      () => /"tool\.finished"[\s\S]*\n/.test(fs.readFileSync(at.path('.sessions', name, 'events.jsonl'), 'utf8')),
      `a call in ${name}`,
    );
  await at.here(['stop-run', 'stopped', '--wait']);
  await at.here(['cancel', 'cancelled', '--wait']);
  expect((await at.here(['archive', 'gone'])).code).toBe(0);
  const within = (name: string, file: string) => at.path('.sessions', name, file);
  fs.writeFileSync(within('settings', 'session.json'), '{ "limits": 5 }');
  fs.writeFileSync(within('planfile', 'plan.json'), '{ "steps": [');
  fs.rmSync(within('inboxfile', 'inbox'), { recursive: true });
  fs.writeFileSync(within('inboxfile', 'inbox'), '');
  const events = fs.readFileSync(within('damaged', 'events.jsonl'), 'utf8').split('\n');
  fs.writeFileSync(within('damaged', 'events.jsonl'), events.with(2, 'no event').join('\n'));
  fs.rmSync(within('damaged', 'snapshot.json'), { force: true });
  return { ...at, stop: daemon.stop };
}

const FRONT_MATTER = '---\nparameters:\n  who:\n---\n';
/** Those whose first message gets no reply by itself. */
const UNANSWERED: ReadonlySet<string> = new Set(['new', 'running', 'stopped', 'cancelled']);
