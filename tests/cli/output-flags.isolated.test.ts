import { afterEach, expect, test, vi } from 'vitest';
import { formatLocalTime } from '../../src/base/strings.ts';
import { colorize } from '../../src/frontends/cli/common/terminal.ts';
import { bench, runHere } from '../support/agentctl-here.ts';

afterEach(() => vi.unstubAllEnvs());

test('-q and --quiet leave results and errors, in front of the command and behind it', async () => {
  const at = bench();
  expect((await at.ctl('send', 'demo', 'hello')).err).toContain('Sent to demo, a new session: ');
  for (const words of [
    ['-q', 'send', 'demo', 'hello'],
    ['send', 'demo', 'hello', '--quiet'],
  ])
    expect(await at.ctl(...words)).toEqual({ code: 0, out: '', err: '' });
  expect((await at.ctl('list', '-q')).out).toContain('demo');
  expect(await at.ctl('show', 'nobody', '-q')).toMatchObject({ code: 4, err: expect.stringContaining('No session') });
  expect(await at.ctl('rename', 'demo', 'other', '-q')).toEqual({ code: 0, out: '', err: '' });
  expect((await at.ctl('rename', 'other', 'demo')).out).toBe('Renamed to demo\n');
});

test('--json and other switches may stand in front of the command', async () => {
  const at = bench();
  await at.ctl('send', 'demo', 'hello');
  const { code, out } = await at.ctl('--json', 'list', '--all');
  expect([code, JSON.parse(out).map(({ name }: { name: string }) => name)]).toEqual([0, ['demo']]);
  expect((await at.ctl('--json', 'lst')).out).toContain('Did you mean \\"list\\"?');
  expect((await at.ctl('--jsn', 'list')).err).toContain('Did you mean "--json"?');
  expect((await at.ctl('--follow', 'list')).err).toContain('Unknown argument: follow');
});

test('behind -- the flags are words of the message', async () => {
  const at = bench();
  const { code, err } = await runHere(['send', '--workspace', at.root, 'demo', '--', '-q', '--no-color']);
  expect({ code, err }).toEqual({ code: 0, err: expect.stringContaining('Sent to demo, a new session: ') });
});

test('--no-color, NO_COLOR and TERM=dumb each print without colours on a terminal', async () => {
  const at = bench();
  const { isTTY } = process.stdout;
  process.stdout.isTTY = true;
  vi.stubEnv('NO_COLOR', '');
  vi.stubEnv('TERM', 'xterm');
  try {
    await at.ctl('send', 'demo', 'hello');
    expect((await at.ctl('list')).out).toContain('\u001b[1m');
    expect(colorize('bold', 'x')).not.toBe('x');
    for (const words of [
      ['--no-color', 'list'],
      ['list', '--no-color'],
      ['show', 'demo', '--no-color'],
    ])
      expect((await at.ctl(...words)).out).not.toContain('\u001b');
    vi.stubEnv('NO_COLOR', '1');
    expect((await at.ctl('list')).out).not.toContain('\u001b');
    vi.stubEnv('NO_COLOR', '');
    vi.stubEnv('TERM', 'dumb');
    expect((await at.ctl('list')).out).not.toContain('\u001b');
  } finally {
    process.stdout.isTTY = isTTY;
  }
});

test('a time on a terminal is that of the place', () => {
  vi.stubEnv('TZ', 'Asia/Tokyo');
  expect(formatLocalTime('2026-03-01T23:05:09.123Z')).toBe('2026-03-02 08:05:09');
});
