import { expect, test } from 'vitest';
import type { PermissionRule, Permissions } from '../../src/protocol/permissions.ts';
import { literal } from '../../src/protocol/permissions.ts';
import type { Told } from '../../src/tools/define.ts';
import { touchedBy } from '../../src/tools/permit/held.ts';
import { fits } from '../../src/tools/permit/pattern.ts';
import { ruling } from '../../src/tools/permit/ruling.ts';

const shell = (text: string, more: Partial<Told> = {}): Told => ({
  ...{ tool: 'shell', text, kind: 'command', shows: text, always: `shell(${literal(text)})`, touches: ['work'] },
  ...more,
});
const fetched = (text: string): Told => ({
  ...{ tool: 'web_fetch', text, kind: 'address', shows: text, always: 'web_fetch', touches: ['network'] },
});
const rules = (session: PermissionRule[], workspace: PermissionRule[] = [], mode: Permissions['mode'] = 'auto') => ({
  ...{ mode, session, workspace },
});
const is = (told: Told, permissions: Permissions) => ruling(told, permissions).is;

test.each(['git status', 'git log --oneline -5', "git commit -m 'a; b | c'", 'git diff HEAD~1 *.ts'])(
  'an allowed pattern fits the plain command %s',
  (command) => {
    expect(is(shell(command), rules([{ allow: 'shell(git *)' }], [], 'safe'))).toBe('allow');
  },
);

test.each([
  'git status; rm -rf x',
  'git status && rm x',
  'git status || rm x',
  'git status | sh',
  'git status & rm x',
  'git status\nrm x',
  'git status\rrm x',
  'git log $(rm x)',
  'git log `rm x`',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: what bash is given
  'git log ${x:-$(rm y)}',
  'git log > /etc/passwd',
  'git log < /etc/passwd',
  'git log <(rm x)',
  'git commit -m "a; b"',
  "git log \\' ; rm x #'",
  "git log $'\\'' ; rm x #'",
  "git log # ' \n rm x '",
  'git log "\'" ; rm x "\'"',
  ' git status',
  'sudo git status',
  'GIT_PAGER=sh git log',
  'gitx status',
])('an allowed pattern does not fit %j', (command) => {
  expect(is(shell(command), rules([{ allow: 'shell(git *)' }], [], 'safe'))).toBe('ask');
});

test('a command with a star or a chain, allowed to the letter, is that command and no other', () => {
  const command = 'rm *.txt; ls';
  const permissions = rules([{ allow: `shell(${literal(command)})` }], [], 'safe');
  expect(is(shell(command), permissions)).toBe('allow');
  expect(is(shell('rm -rf / .txt; ls'), permissions)).toBe('ask');
});

test.each([
  'rm -rf x',
  'ls; rm x',
  'ls && sudo rm x',
  'echo $(rm x)',
  'echo `rm x`',
  'A=1 rm x',
  'bash -c "ls; rm x"',
  'if true; then rm x; fi',
  'ls\nrm\tx',
  'rm "a b"',
])('what is denied is found in %j', (command) => {
  expect(is(shell(command), rules([{ deny: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('deny');
  expect(is(shell(command), rules([{ ask: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('ask');
});

test('the first rule that matches decides; the session is looked at before the workspace', () => {
  expect(is(shell('git push'), rules([{ ask: 'shell(git push*)' }, { allow: 'shell(git *)' }]))).toBe('ask');
  expect(is(shell('git push'), rules([{ allow: 'shell(git *)' }, { ask: 'shell(git push*)' }]))).toBe('allow');
  expect(is(shell('git push'), rules([{ allow: 'shell' }], [{ ask: 'shell' }]))).toBe('allow');
  expect(is(shell('git push'), rules([], [{ ask: 'shell' }]))).toBe('ask');
});

test('what the workspace denies no session allows', () => {
  expect(is(shell('git push'), rules([{ allow: 'shell' }], [{ deny: 'shell(git push*)' }]))).toBe('deny');
  expect(ruling(shell('git push'), rules([], [{ deny: 'shell(git push*)' }]))).toMatchObject({
    why: expect.stringContaining('shell(git push*)'),
  });
});

test.each([
  ['https://example.com/*', 'https://example.com/a/b?c=d', true],
  ['https://example.com/*', 'https://example.com/', true],
  ['https://example.com', 'https://example.com/', true],
  ['https://*', 'https://example.com/a', true],
  ['https://*.example.com/*', 'https://docs.example.com/a', true],
  ['https://example.com/*', 'http://example.com/', false],
  ['https://example.com/*', 'https://example.com.evil.net/', false],
  ['https://*.example.com/*', 'https://evil.net/x.example.com/a', false],
  ['https://*.example.com/*', 'https://evil.net/?x.example.com/', false],
  ['https://*/*', 'https://user@example.com/', false],
])('the pattern %s and the address %s: %s', (pattern, address, expected) => {
  const found = ruling(fetched(address), rules([{ allow: `web_fetch(${pattern})` }], [], 'ask'));
  expect(found.is === 'allow').toBe(expected);
});

test('a tool may be named with a star, as those of an MCP server are', () => {
  const told: Told = {
    tool: 'mcp__files__read',
    text: '{}',
    kind: 'text',
    shows: '',
    always: '',
    touches: ['outside'],
  };
  expect(is(told, rules([{ allow: 'mcp__files__*' }], [], 'ask'))).toBe('allow');
  expect(is(told, rules([{ allow: 'mcp__mail__*' }], [], 'ask'))).toBe('ask');
});

test('a long text and a pattern of many stars take no time', () => {
  expect(fits(`${'*a'.repeat(30)}b`, 'a'.repeat(20_000))).toBe(false);
});

test.each([
  ['safe', [], 'allow'],
  ['safe', ['work'], 'ask'],
  ['ask', ['work'], 'allow'],
  ['ask', ['network'], 'ask'],
  ['ask', ['work', 'outside'], 'ask'],
  ['auto', ['network', 'outside'], 'allow'],
] as const)('where no rule speaks, %s and what touches %j: %s', (mode, touches, expected) => {
  expect(is(shell('x', { touches: [...touches] }), rules([], [], mode))).toBe(expected);
});

test('what a person granted by their settings is asked about only where all that changes something is', () => {
  const told = shell('x', { touches: ['network'], granted: ['network'] });
  expect(is(told, rules([], [], 'ask'))).toBe('allow');
  expect(is(told, rules([], [], 'safe'))).toBe('ask');
});

test('without a working sandbox each command asks, whatever approvals say, unless "none" was chosen or a rule allows it', () => {
  const no = { held: false, why: 'no bwrap', refused: false } as const;
  const unheld = touchedBy({ ...no, chosen: false }, { mode: 'auto', network: false });
  const chosen = touchedBy({ ...no, chosen: true }, { mode: 'none', network: false });
  const held = touchedBy({ held: true, gaps: [] }, { mode: 'auto', network: false });
  const online = touchedBy({ held: true, gaps: [] }, { mode: 'auto', network: true });
  const refused = touchedBy({ ...no, chosen: false, refused: true }, { mode: 'bwrap', network: false });
  expect(is(shell('ls', unheld), rules([], [], 'auto'))).toBe('ask');
  expect(is(shell('ls', unheld), rules([], [], 'ask'))).toBe('ask');
  expect(is(shell('ls', unheld), rules([{ allow: 'shell(ls*)' }], [], 'ask'))).toBe('allow');
  for (const fine of [chosen, held, online, refused]) expect(is(shell('ls', fine), rules([], [], 'ask'))).toBe('allow');
  for (const changes of [chosen, held, online]) expect(is(shell('ls', changes), rules([], [], 'safe'))).toBe('ask');
});

test.each([
  ['an allow of a child does not lift what its root denies', { deny: 'shell' }, { allow: 'shell' }, 'deny'],
  ['nor what its root asks about', { ask: 'shell' }, { allow: 'shell' }, 'ask'],
  ['a child denies what its root allows', { allow: 'shell' }, { deny: 'shell(rm *)' }, 'deny'],
  ['and asks about it', { allow: 'shell' }, { ask: 'shell(rm *)' }, 'ask'],
  ['what a child asks about stays denied', { deny: 'shell' }, { ask: 'shell' }, 'deny'],
] satisfies Array<[string, PermissionRule, PermissionRule, string]>)('%s', (_, root, child, wanted) => {
  expect(is(shell('rm x'), { ...rules([root]), children: [[child]] })).toBe(wanted);
  expect(is(shell('rm x'), { ...rules([], [root]), children: [[], [child]] })).toBe(wanted);
});

test('an allow of a child is no answer to a question that comes by default', () => {
  const permissions = { ...rules([], [], 'safe'), children: [[{ allow: 'shell' }]] };
  expect(is(shell('ls'), permissions)).toBe('ask');
});
