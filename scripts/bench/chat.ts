import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgentd, startChat, startFloorInTerminal, type Terminal } from './children.ts';
import { drop, FREE, makeSession, makeWorkspace, replied } from './contender.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { median, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const FLOOR = new URL('./floor-chat.ts', import.meta.url);
const WARM_UP = 5;
/** Lets both sides become idle before the next message. */
const PAUSE_MS = 10;
/** The time between the first token of an answer and the next. */
const TALKING_MS = 50;
const ANSWERS = { quick: 10, usual: 100 };

type Took = { first: number[]; next: number[] };

/** The time from the model sending a token until it is shown by `agentctl chat`. */
export async function chat({ folder, size, nodeFlags }: Setting): Promise<string> {
  if (spawnSync('script', ['--version']).error) return 'chat: skipped, since it takes `script` of util-linux';
  const n = ANSWERS[size === 'quick' ? 'quick' : 'usual'];
  const endpoint = await openEndpoint();
  const workspace = makeWorkspace(join(folder, 'chat'), FREE);
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  const session = makeSession(workspace, 'words');
  const ours = startChat(workspace, 'words');
  const bare = startFloorInTerminal(FLOOR, endpoint.url);
  await Promise.all([ours.shows('›'), bare.shows('READY')]);
  const [took, floor]: [Took, Took] = [
    { first: [], next: [] },
    { first: [], next: [] },
  ];
  for (let index = 0; index < n + WARM_UP; index++) {
    const ask = `Are you there, for the ${index}th time?`;
    const send = () => void drop(session, `m${index}`, ask);
    await tokens(ours, endpoint, { send, mark: `Ours-${index}`, took });
    await replied(session, `m${index}`);
    await sleep(PAUSE_MS);
    const type = () => bare.type(`${ask}\n`);
    await tokens(bare, endpoint, { send: type, mark: `Bare-${index}`, took: floor });
    await sleep(PAUSE_MS);
  }
  await ours.stop();
  await bare.stop();
  await daemon.stop();
  endpoint.close();
  const row = (token: string, own: readonly number[], others: readonly number[]): string[] => {
    const [mine, theirs] = [own.slice(WARM_UP), others.slice(WARM_UP)];
    return [token, String(n), both(mine), both(theirs), times(median(mine), median(theirs))];
  };
  return [
    'chat: the model sends a token … it is in the terminal, ms (target 30)',
    '',
    table(
      ['token', 'n', 'agentctl chat, p50 / p99', 'a program that asks the model itself', 'ratio (p50)'],
      [row('the first of an answer', took.first, floor.first), row('the next, 50 ms later', took.next, floor.next)],
    ),
  ].join('\n');
}

const both = (took: readonly number[]): string => `${ms(median(took))} / ${ms(quantile(took, 0.99))}`;

/** Sends an answer of two tokens; returns when each was sent and when it was on the screen. */
async function tokens(
  terminal: Terminal,
  endpoint: Endpoint,
  { send, mark, took }: { send: () => void; mark: string; took: Took },
): Promise<void> {
  endpoint.script(() => ({ text: `${mark}a`, rest: ` ${mark}b.`, pauseMs: TALKING_MS }));
  send();
  const first = await terminal.shows(`${mark}a`);
  const next = await terminal.shows(`${mark}b.`);
  const { began, wentOn } = endpoint.exchanges[0] ?? { began: Number.NaN, wentOn: Number.NaN };
  took.first.push(first - began);
  took.next.push(next - wentOn);
}
