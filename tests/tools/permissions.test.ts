import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { PermissionRule, Permissions } from '../../src/protocol/settings/permissions.ts';
import { escapePattern } from '../../src/protocol/settings/permissions.ts';
import type { CallDescription } from '../../src/tools/common/define-tool.ts';
import { decidePermission, matchesWildcard } from '../../src/tools/permissions/permission-rules.ts';
import { effectsOfCommand } from '../../src/tools/sandbox/sandbox.ts';
import { WEB_FETCH_HEAD } from '../../src/tools/web/web-tool-heads.ts';
import { temporaryFolder } from '../support/temporary.ts';

const shell = (text: string, more: Partial<CallDescription> = {}): CallDescription => ({
  ...{
    tool: 'shell',
    text,
    kind: 'command',
    display: text,
    always: `shell(${escapePattern(text)})`,
    touches: ['work'],
  },
  ...more,
});
const fetched = (text: string): CallDescription => ({
  ...{ tool: 'web_fetch', text, kind: 'address', display: text, always: 'web_fetch', touches: ['network'] },
});
const rules = (session: PermissionRule[], workspace: PermissionRule[] = [], mode: Permissions['mode'] = 'auto') => ({
  ...{ mode, session, workspace },
});
const HERE = { work: '/ws/.sessions/demo/work' };
const is = (reported: CallDescription, permissions: Permissions) => decidePermission(reported, permissions, HERE).is;

test.each([
  'git status',
  'git log --oneline -5',
  "git commit -m 'a; b | c'",
  'git commit -m "a b"',
  'git diff HEAD~1 *.ts',
])('an allowed pattern fits the plain command %s', (command) => {
  expect(is(shell(command), rules([{ allow: 'shell(git *)' }], [], 'safe'))).toBe('allow');
});

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

test('a command with a star or a chain, allowed literally, is only that command', () => {
  const command = 'rm *.txt; ls';
  const permissions = rules([{ allow: `shell(${escapePattern(command)})` }], [], 'safe');
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
  'rm',
  'find . -exec rm {} +',
  'ls | xargs rm',
])('what is denied is found in %j', (command) => {
  expect(is(shell(command), rules([{ deny: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('deny');
  expect(is(shell(command), rules([{ ask: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('ask');
});

test.each([
  '/bin/rm x',
  '/usr/bin/sudo -u root /bin/rm x',
  'env -i A=1 rm x',
  'timeout 5 nice -n 3 rm x',
  'find . -name y -exec rm x {} +',
  'ls | xargs -n1 rm x',
  '>log rm x',
  '2>&1 A="b c" rm x',
  "'rm' x",
  '"r"m x',
  '\\rm x',
  "r''m x",
  "$'rm' x",
  'r\\\nm x',
  'rm$IFS-x',
  '{rm,x}',
  'eval rm x',
  "sh -c 'rm x'",
  'bash -c rm\\ x',
  'true &\nrm x',
  'coproc rm x',
  'if ! rm x; then :; fi',
  'case a in a) rm x;; esac',
  '(rm x)',
  'f() { rm x; }; f',
  `env ${'A=1 '.repeat(500)}rm x`,
])('what is denied is found behind what goes around it: %j', (command) => {
  expect(is(shell(command), rules([{ deny: 'shell(rm*)' }, { allow: 'shell' }]))).toBe('deny');
});

test.each(['git rm x', 'ls rm', 'echo firm x', 'cat /rm/x', 'npm run rm'])('and not where it is not: %s', (command) => {
  expect(is(shell(command), rules([{ deny: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('allow');
});

test.each([
  'grep "rm" notes.txt',
  `grep -rn -E 'rm|mv' *.md`,
  'cat "rm" | grep -c "rm x; rm y" | wc -l',
  'echo "rm x" && ls "rm"',
  '/usr/bin/grep "rm x" a',
])('words in quotes are no command where programs that only print are called: %s', (command) => {
  expect(is(shell(command), rules([{ deny: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('allow');
});

test.each([
  'echo "rm x" | sh',
  'echo "rm x" > run.sh',
  'cat <(rm x)',
  'grep "$(rm x)" a',
  'grep "`rm x`" a',
  'grep a b; "rm" x',
  'grep a b | xargs "rm"',
  'grep "a" b\n"rm" x',
  'grep "a" b & "rm" x',
  'PATH=. grep "rm" x',
  './grep "rm x"',
  'rg --pre "rm" x',
  'git grep -O"rm" x',
  'ssh host "rm x"',
  'awk \'BEGIN { system("rm x") }\'',
  'trap "rm x" EXIT',
  'find . -exec "rm" {} ;',
  'grep "a\\"; rm x; \\"" b',
])('and they are one wherever something else might run them: %j', (command) => {
  expect(is(shell(command), rules([{ deny: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('deny');
});

test('a rule about a program that only prints holds in a line of several, with its words in quotes or not', () => {
  for (const command of ['ls; cat "/etc/passwd"', "ls | cat '/etc/'passwd", 'ls && /bin/cat /etc/passwd'])
    expect(is(shell(command), rules([{ deny: 'shell(cat /etc/*)' }, { allow: 'shell' }]))).toBe('deny');
});

test('a very long command is matched against the rules quickly', () => {
  const quoted = `grep ${'"rm" '.repeat(50_000)};x`;
  expect(is(shell(quoted), rules([{ deny: 'shell(mv *)' }, { allow: 'shell' }]))).toBe('allow');
  const command = `env ${'a '.repeat(50_000)}`;
  expect(is(shell(command), rules([{ deny: 'shell(rm *)' }, { allow: 'shell' }]))).toBe('allow');
});

test('the first rule that matches decides; the session is looked at before the workspace', () => {
  expect(is(shell('git push'), rules([{ ask: 'shell(git push*)' }, { allow: 'shell(git *)' }]))).toBe('ask');
  expect(is(shell('git push'), rules([{ allow: 'shell(git *)' }, { ask: 'shell(git push*)' }]))).toBe('allow');
  expect(is(shell('git push'), rules([{ allow: 'shell' }], [{ ask: 'shell' }]))).toBe('allow');
  expect(is(shell('git push'), rules([], [{ ask: 'shell' }]))).toBe('ask');
});

test('a session cannot allow what the workspace denies', () => {
  expect(is(shell('git push'), rules([{ allow: 'shell' }], [{ deny: 'shell(git push*)' }]))).toBe('deny');
  expect(decidePermission(shell('git push'), rules([], [{ deny: 'shell(git push*)' }]), HERE)).toMatchObject({
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
  const found = decidePermission(fetched(address), rules([{ allow: `web_fetch(${pattern})` }], [], 'ask'), HERE);
  expect(found.is === 'allow').toBe(expected);
});

const DENIED = 'https://example.com/private/*';

test.each([
  'https://EXAMPLE.com/private/x',
  'https://example.com:443/private/x',
  'https://example.com./private/x',
  'https://example.com/%70rivate/x',
  'https://example.com/%2570rivate/x',
  'https://example.com/a/../private/x',
  'https://example.com/a/%2e%2e/private/x',
  'https://example.com/a/..%2fprivate/x',
  'https://example.com//private//x',
  'https://example.com/private%2fx',
  'https://example.com\\private\\x',
  'https://example.com/%252525252570rivate/x',
  'https://example.com/%ff%70rivate/../private/x',
  'https://example.com/private%2f%ff',
])('an address that is denied is found however it is written: %s', (url) => {
  const asked = fetched(WEB_FETCH_HEAD.subject({ url }));
  expect(is(asked, rules([{ deny: `web_fetch(${DENIED})` }, { allow: 'web_fetch' }]))).toBe('deny');
  expect(is(asked, rules([{ deny: 'web_fetch(https://Example.com.:443/private/*)' }, { allow: '*' }]))).toBe('deny');
});

test.each([
  ['http://h/x?action=delete', 'http://h/*?action=*'],
  ['http://h/x?%61ction=delete', 'http://h/*?action=*'],
  ['http://h/x?%2561ction=delete', 'http://h/*?action=*'],
  ['http://h/x?a=1%26action=delete', 'http://h/*?*&action=*'],
  ['http://h/x?u=%3F%61', 'http://h/*?u=?a'],
  ['http://h/x?list[0]=1&%61ction=delete', 'http://h/*&action=*'],
  ['http://h/%78?next=%2Fhome', 'http://h/x?next=%2Fhome*'],
  ['http://h/%78?next=%2Fhome', 'http://h/x?next=/home*'],
  ['http://h//x?%61ction=delete#y', 'http://h/x?action=*'],
  [`http://h/x?%${'25'.repeat(40)}61ction=delete`, 'http://other/*'],
])('a query that is denied is found however it is encoded: %s', (url, pattern) => {
  const asked = fetched(WEB_FETCH_HEAD.subject({ url }));
  for (const word of ['deny', 'ask'] as const)
    expect(is(asked, rules([{ [word]: `web_fetch(${pattern})` } as PermissionRule, { allow: 'web_fetch' }]))).toBe(
      word,
    );
});

test.each([
  ['http://h/x?%61ction=read', 'http://h/x?action=*', 'ask'],
  ['http://h/x?next=%2Fhome', 'http://h/x?next=%2F*', 'allow'],
  ['http://h/x?q=a%20b', 'http://h/*', 'allow'],
  [`http://h/x?%${'25'.repeat(40)}61ction=delete`, 'http://h/*', 'ask'],
  ['http://[64:ff9b::7f00:1]/x', 'http://127.0.0.1/*', 'ask'],
  ['http://[::127.0.0.1]/x', 'http://127.0.0.1/*', 'ask'],
])('an allowed pattern fits the query and the host only as they are written: %s', (url, pattern, expected) => {
  const asked = fetched(WEB_FETCH_HEAD.subject({ url }));
  expect(is(asked, rules([{ allow: `web_fetch(${pattern})` }], [], 'ask'))).toBe(expected);
});

test.each([
  'https://example.com/open/..%2fprivate/x',
  'https://example.com/open/%2e%2e%2fprivate',
  'https://example.com/open/%252e%252e%252fprivate',
])('an address that may be another one is not allowed by a pattern with a star: %s', (url) => {
  const allow = { allow: 'web_fetch(https://example.com/open/*)' };
  expect(is(fetched(WEB_FETCH_HEAD.subject({ url })), rules([allow], [], 'ask'))).toBe('ask');
  expect(
    is(fetched(WEB_FETCH_HEAD.subject({ url: 'https://example.com/open/a%20b' })), rules([allow], [], 'ask')),
  ).toBe('allow');
});

test.each([
  ['http://[::ffff:127.0.0.1]/private/x', 'http://127.0.0.1/private/*'],
  ['http://[::FFFF:7f00:1]:8080/private/x', 'http://127.0.0.1:8080/private/*'],
  ['http://127.0.0.1/private/x', 'http://[::ffff:127.0.0.1]/private/*'],
  ['http://0x7f.1/private/x', 'http://127.0.0.1/private/*'],
  ['http://[::1]/private/x', 'http://[::1]/private/*'],
  ['http://[::127.0.0.1]:8080/private/x', 'http://127.0.0.1:8080/private/*'],
  ['http://[64:ff9b::127.0.0.1]/private/x', 'http://127.0.0.1/private/*'],
  ['http://[64:ff9b::7f00:1]/%70rivate/x', 'http://127.0.0.1/private/*'],
  ['http://[64:ff9b::7f00:1]/private/x', 'http://[64:ff9b::7f00:1]/private/*'],
])('the address %s is held back by a rule about %s', (url, pattern) => {
  const asked = fetched(WEB_FETCH_HEAD.subject({ url }));
  expect(is(asked, rules([{ deny: `web_fetch(${pattern})` }, { allow: 'web_fetch' }]))).toBe('deny');
});

test('an address encoded too many times matches every deny and ask rule about addresses, and no allow rule', () => {
  const url = `https://example.com/%${'25'.repeat(40)}70rivate/x`;
  const asked = fetched(WEB_FETCH_HEAD.subject({ url }));
  expect(is(asked, rules([{ deny: `web_fetch(${DENIED})` }, { allow: 'web_fetch' }]))).toBe('deny');
  expect(is(asked, rules([{ allow: 'web_fetch(https://example.com/*)' }], [], 'ask'))).toBe('ask');
});

test('an invalid address, and a pattern without a scheme, are compared as text', () => {
  const nonsense = fetched(WEB_FETCH_HEAD.subject({ url: 'nonsense' }));
  expect(is(nonsense, rules([{ deny: 'web_fetch(non*)' }]))).toBe('deny');
  expect(is(nonsense, rules([{ allow: 'web_fetch(non*)' }], [], 'ask'))).toBe('allow');
  expect(is(fetched('https://example.com/private/x'), rules([{ deny: 'web_fetch(*example.com/private/*)' }]))).toBe(
    'deny',
  );
});

test('an address allowed literally is allowed, whatever it contains', () => {
  const url = 'https://example.com/a%2f..%2fb?u=http://x//y';
  const permissions = rules([{ allow: `web_fetch(${escapePattern(url)})` }], [], 'ask');
  expect(is(fetched(url), permissions)).toBe('allow');
});

const written = (text: string, tool = 'write_file'): CallDescription => ({
  ...{ tool, text, kind: 'path', display: text, always: '', touches: ['work'] },
});

/** `work/` with `secret/`, a link to it and one to a file in it; and the same family's folder of a child. */
function folders() {
  const root = temporaryFolder('paths');
  const [named, top] = [join(root, 'named'), join(root, 'work')];
  for (const folder of [top, join(top, 'secret'), join(top, 'docs'), join(top, 'step_1', 'secret')])
    mkdirSync(folder, { recursive: true });
  writeFileSync(join(top, 'secret', 'a'), '');
  symlinkSync('secret', join(top, 'way'));
  symlinkSync('../secret/a', join(top, 'docs', 'a'));
  symlinkSync(top, named);
  return { work: named, top };
}
const at = (reported: CallDescription, permissions: Permissions, where = folders()) =>
  decidePermission(reported, permissions, where).is;

test.each([
  (_: string) => 'secret/a',
  (_: string) => './secret/a',
  (_: string) => 'work/secret/a',
  (_: string) => './/work//secret/a',
  (_: string) => 'docs/../secret/a',
  (_: string) => 'secret//new/file',
  (_: string) => 'way/a',
  (_: string) => 'way/new/file',
  (_: string) => 'docs/a',
  (work: string) => join(work, 'secret/a'),
  (work: string) => join(realpathSync(work), 'way', 'a'),
])('a file that is denied is found by any of its names (%#)', (path) => {
  const where = folders();
  for (const pattern of ['secret/*', './secret/*', 'work/secret/*', 'way/*', join(where.work, 'secret', '*')]) {
    for (const tool of ['write_file', 'read_file'])
      expect(at(written(path(where.work), tool), rules([{ deny: `*(${pattern})` }, { allow: '*' }]), where)).toBe(
        'deny',
      );
  }
  expect(at(written('docs/b'), rules([{ deny: '*(secret/*)' }, { allow: '*' }]), where)).toBe('allow');
});

test.each(['docs/a', 'docs/../secret/a', 'way/a'])('a file is allowed by its true name only, not as %s', (path) => {
  const allow = (pattern: string) => rules([{ allow: `write_file(${pattern})` }], [], 'safe');
  expect(at(written(path), allow('docs/*'))).toBe('ask');
  expect(at(written(path), allow('way/*'))).toBe('ask');
  expect(at(written(path), allow('secret/*'))).toBe('allow');
  expect(at(written('docs/new'), allow('docs/*'))).toBe('allow');
});

test('for a child with its own folder, rules apply to paths from there and from work/ itself', () => {
  const { top } = folders();
  const where = { work: join(top, 'step_1'), top };
  for (const deny of ['write_file(secret/*)', 'write_file(step_1/secret/*)'])
    expect(at(written('secret/a'), rules([{ deny }]), where)).toBe('deny');
});

test('"always" names a file by its true name', () => {
  const found = decidePermission(written('./docs/a'), rules([], [], 'safe'), folders());
  expect(found).toMatchObject({ always: 'write_file(secret/a)' });
});

test('a call that does two things is subject to the rules for both', () => {
  const both: CallDescription = { ...fetched('https://example.com/'), also: [written('secret/a')] };
  expect(is(both, rules([{ allow: 'web_fetch' }, { deny: 'write_file(secret/*)' }]))).toBe('deny');
  expect(is(both, rules([{ allow: 'web_fetch' }, { ask: 'write_file' }]))).toBe('ask');
  expect(is(both, rules([{ allow: 'web_fetch' }], [], 'safe'))).toBe('ask');
  expect(is(both, rules([{ allow: '*' }], [], 'safe'))).toBe('allow');
});

test('a tool may be named with a star, as those of an MCP server are', () => {
  const reported: CallDescription = {
    tool: 'mcp__files__read',
    text: '{}',
    kind: 'text',
    display: '',
    always: '',
    touches: ['outside'],
  };
  expect(is(reported, rules([{ allow: 'mcp__files__*' }], [], 'ask'))).toBe('allow');
  expect(is(reported, rules([{ allow: 'mcp__mail__*' }], [], 'ask'))).toBe('ask');
});

test('a long text and a pattern of many stars are matched quickly', () => {
  expect(matchesWildcard(`${'*a'.repeat(30)}b`, 'a'.repeat(20_000))).toBe(false);
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

test('effects that a person granted in the settings need approval only if every change does', () => {
  const reported = shell('x', { touches: ['network'], granted: ['network'] });
  expect(is(reported, rules([], [], 'ask'))).toBe('allow');
  expect(is(reported, rules([], [], 'safe'))).toBe('ask');
});

test('without a working sandbox, or in the weaker fence, each command asks, whatever approvals say, unless "none" was chosen or a rule allows it', () => {
  const no = { isSandboxed: false, why: 'no bwrap', isRefused: false } as const;
  const unsandboxed = effectsOfCommand({ ...no, isChosen: false }, { mode: 'auto', network: false });
  const weaker = { why: 'no namespaces' };
  const fenced = effectsOfCommand({ isSandboxed: true, gaps: [], weaker }, { mode: 'auto', network: true });
  const chosen = effectsOfCommand({ ...no, isChosen: true }, { mode: 'none', network: false });
  const sandboxed = effectsOfCommand({ isSandboxed: true, gaps: [] }, { mode: 'auto', network: false });
  const online = effectsOfCommand({ isSandboxed: true, gaps: [] }, { mode: 'auto', network: true });
  const refused = effectsOfCommand({ ...no, isChosen: false, isRefused: true }, { mode: 'bwrap', network: false });
  for (const free of [unsandboxed, fenced]) {
    for (const approvals of ['auto', 'ask'] as const)
      expect(is(shell('ls', free), rules([], [], approvals))).toBe('ask');
    expect(is(shell('ls', free), rules([{ allow: 'shell(ls*)' }], [], 'ask'))).toBe('allow');
  }
  for (const fine of [chosen, sandboxed, online, refused])
    expect(is(shell('ls', fine), rules([], [], 'ask'))).toBe('allow');
  for (const changes of [chosen, sandboxed, online])
    expect(is(shell('ls', changes), rules([], [], 'safe'))).toBe('ask');
});
