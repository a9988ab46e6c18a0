import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { findObstacle, missingBubblewrap } from '../../src/tools/sandbox/sandbox-backend.ts';
import { seccompFilter } from '../../src/tools/sandbox/seccomp-filter.ts';
import { attemptsFor } from '../../src/tools/sandbox-check/escape-attempts.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { asNobody } from './as-nobody.ts';
import { hasSandbox, whyNot } from './sandbox.ts';
import { setup } from './tool-setup.ts';

if (!hasSandbox) console.warn(`tests of the sandbox skip: ${whyNot}`);
const sandboxTest = test.runIf(hasSandbox);
const on = { sandbox: { mode: 'auto' } } as const;

/** Runs a filter as the kernel would, for one call: its number, arguments and architecture. */
function answer(filter: Buffer, call: { number: number; args?: number[]; audit: number }): string {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call.number >>> 0, 0);
  data.writeUInt32LE(call.audit, 4);
  (call.args ?? []).forEach((value, n) => void data.writeUInt32LE(value, 16 + 8 * n));
  let word = 0;
  for (let at = 0; at < filter.length / 8; at++) {
    const operand = filter.readUInt32LE(at * 8 + 4);
    const jump = (is: boolean) => filter.readUInt8(at * 8 + (is ? 2 : 3));
    const operation = filter.readUInt16LE(at * 8);
    if (operation === 0x20) word = data.readUInt32LE(operand);
    else if (operation === 0x15) at += jump(word === operand);
    else if (operation === 0x35) at += jump(word >= operand);
    else if (operation === 0x45) at += jump((word & operand) !== 0);
    else if (operation === 0x06) return operand === 0x7fff0000 ? 'allowed' : operand.toString(16);
    else throw new Error(`Not an operation of a filter: ${operation}`);
  }
  throw new Error('The filter has no end.');
}

const [EPERM, ENOSYS, EAFNOSUPPORT] = ['50001', '50026', '50061'];
const AUDIT = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;

/** Numbers of socket, ioctl, clone, unshare, bpf, keyctl, mount, read and ptrace. */
test.each([
  ['x64', [41, 16, 56, 272, 321, 250, 165, 0, 101]],
  ['arm64', [198, 29, 220, 97, 280, 219, 40, 63, 117]],
] as const)(
  'the filter for %s denies other families of sockets, namespaces, keys and typing, and nothing a program needs',
  (arch, [socket, ioctl, clone, unshare, bpf, keyctl, mount, read, ptrace]) => {
    const filter = seccompFilter(arch, 'all') ?? Buffer.alloc(0);
    const ask = (number: number, ...args: number[]) => answer(filter, { number, args, audit: AUDIT[arch] });
    for (const family of [1, 2, 10, 16]) expect(ask(socket, family, 1, 0)).toBe('allowed');
    for (const family of [0, 17, 31, 38, 40, 0xffffffff]) expect(ask(socket, family, 1, 0)).toBe(EAFNOSUPPORT);
    for (const request of [0x5412, 0x541c]) expect(ask(ioctl, 0, request)).toBe(EPERM);
    for (const request of [0x5401, 0x5413, 0x541b]) expect(ask(ioctl, 0, request)).toBe('allowed');
    // A thread, a process of fork(), and each kind of namespace.
    for (const flags of [0x3d0f00, 0x1200011]) expect(ask(clone, flags)).toBe('allowed');
    for (const bit of [17, 25, 26, 27, 28, 29, 30]) {
      expect(ask(clone, (1 << bit) | 17)).toBe(EPERM);
      expect(ask(unshare, 1 << bit)).toBe(EPERM);
    }
    expect(ask(unshare, 0x200)).toBe('allowed');
    for (const number of [bpf, keyctl, mount]) expect(ask(number)).toBe(EPERM);
    for (const number of [425, 426, 427, 435]) expect(ask(number)).toBe(ENOSYS);
    for (const number of [read, ptrace, 437]) expect(ask(number)).toBe('allowed');
    if (arch === 'x64') for (const number of [0x40000029, 0xffffffff]) expect(ask(number, 40)).toBe(ENOSYS);
    // A 32-bit program is ended, and an unknown machine gets no filter rather than a wrong one.
    expect(seccompFilter('riscv64', 'all')).toBe(undefined);
    expect(answer(filter, { number: read, audit: 0x40000003 })).toBe('80000000');
  },
);

const hasPerl = spawnSync('sh', ['-c', 'perl -v']).status === 0;

sandboxTest(
  'a command and its children run under the filter, and threads, pipes and the usual sockets work',
  async ({ skip }) => {
    skip(seccompFilter(process.arch, 'all') === undefined || !hasPerl, 'no filter for this machine, or no perl');
    const { use } = setup(on);
    const script = [
      "grep -E '^Seccomp:' /proc/self/status; ls /proc/self/fd | grep -c 9",
      `perl -e 'for (1, 2, 10, 16, 40, 38) { print socket(my $s, $_, $_ == 16 ? 3 : 1, 0) ? "yes" : 0 + $!, " " }'; echo`,
      `node -e "new (require('worker_threads').Worker)('console.log(6*7)', { eval: true })"`,
      `node -e "const s = require('net').createServer((c) => c.end('hi')).listen(0, '127.0.0.1', () => require('net').connect(s.address().port).on('data', (d) => { console.log('' + d); process.exit() }))"`,
      'unshare --mount true 2>&1 | grep -c "not permitted"',
    ].join('\n');
    const { text } = await use('shell', { command: script });
    // The loopback interface of its own network namespace is up.
    expect(text).toBe('exit 0\nSeccomp:\t2\n0\nyes yes yes yes 97 97 \n42\nhi\n1\n');
  },
);

/** A PATH on which bwrap does not work, with a setpriv that knows Landlock, if one is named. */
function pathWithoutBubblewrap(): string {
  const bin = temporaryFolder('bin');
  chmodSync(bin, 0o755);
  writeFileSync(join(bin, 'bwrap'), '#!/bin/sh\necho no namespaces >&2; exit 1\n', { mode: 0o755 });
  return [bin, process.env['AGENTD_TEST_SETPRIV'] ?? bin, process.env['PATH']].join(':');
}

test.runIf(process.platform === 'linux')(
  'without namespaces a user gets a weaker fence: files, the network and Unix sockets are closed, and it is said',
  ({ skip }) => {
    const WHY = 'no namespaces';
    skip(process.getuid?.() !== 0, 'only root can be another user');
    const run = asNobody(
      (src) => `
    import { openSandbox, runEscapeAttempts } from '${src}/tools/index.ts';
    const env = { ...process.env, PATH: '${pathWithoutBubblewrap()}' };
    const warnings = [];
    const sandbox = openSandbox({ env, hidden: [], warn: (line) => warnings.push(line) });
    const status = sandbox.statusFor({ mode: 'auto' });
    console.log(JSON.stringify({ status, strict: sandbox.statusFor({ mode: 'bwrap' }) }));
    if (status.isSandboxed) {
      await sandbox.wrapCommand({ shell: '/bin/sh', command: 'true', cwd: '/tmp', env }, { mode: 'auto', network: false }, []);
      console.log(JSON.stringify(warnings));
      for await (const { attempt, isPrevented, output } of runEscapeAttempts(env, { mode: 'auto', network: false }))
        console.log(attempt.name + (isPrevented ? '' : ': ' + output));
    }`,
    );
    if ('why' in run) return skip(run.why);
    const [first = '', warnings = '', ...tried] = run.stdout.trim().split('\n');
    const { status, strict } = JSON.parse(first);
    expect(strict).toMatchObject({ isSandboxed: false, isRefused: true, why: expect.stringContaining(WHY) });
    if (!status.isSandboxed) return skip('setpriv of util-linux 2.41 or Landlock is missing here');
    expect(status).toMatchObject({ weaker: { why: expect.stringContaining(WHY) } });
    expect(status.gaps.join()).toContain('weaker fence');
    expect(JSON.parse(warnings)).toEqual([expect.stringContaining('weaker fence: ')]);
    expect(tried).toEqual(attemptsFor('auto', true).map(({ name }) => name));
    expect(tried).not.toContain('fork bomb');
  },
  60_000,
);

test('in the weaker fence no socket is left without the network, none of Unix with it, and nobody ends everybody', () => {
  const ask = (sockets: 'none' | 'network', number: number, first: number) =>
    answer(seccompFilter('x64', sockets) ?? Buffer.alloc(0), { number, args: [first], audit: AUDIT.x64 });
  for (const family of [1, 2, 10, 16]) expect(ask('none', 41, family)).toBe(EAFNOSUPPORT);
  const families = [1, 2, 10, 16].map((family) => ask('network', 41, family));
  expect(families).toEqual([EAFNOSUPPORT, 'allowed', 'allowed', 'allowed']);
  const others = [ask('none', 53, 1), ask('none', 62, 0xffffffff), ask('none', 62, 1234)];
  expect(others).toEqual(['allowed', EPERM, 'allowed']);
});

type Files = Record<string, string>;

/** A machine made of these files, on which a program may make user namespaces. */
function machine(files: Files, isRoot = false): { root: string; isRoot: boolean } {
  const root = temporaryFolder('machine');
  const usual: Files = {
    'proc/self/ns/user': '',
    'proc/self/status': 'Name:\tnode\nSeccomp:\t0\n',
    'proc/sys/user/max_user_namespaces': '96365\n',
  };
  for (const [path, text] of Object.entries({ ...usual, ...files })) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return { root, isRoot };
}

const APPARMOR = { 'proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1\n' };

test.each([
  ['AppArmor of Ubuntu 24.04', APPARMOR, 'AppArmor', 'profile bwrap /usr/bin/bwrap flags=(unconfined)'],
  ['stock Docker', { '.dockerenv': '' }, 'this container', 'docker run --security-opt seccomp=unconfined'],
  ['Docker on Ubuntu', { ...APPARMOR, '.dockerenv': '' }, 'this container', '--security-opt systempaths=unconfined'],
  ['Podman', { 'run/.containerenv': '' }, 'this container', '--security-opt unmask=ALL'],
  ['a pod', { 'var/run/secrets/kubernetes.io/serviceaccount/token': '' }, 'this pod', 'procMount: Unmasked'],
  ['Debian 10', { 'proc/sys/kernel/unprivileged_userns_clone': '0\n' }, 'are off', 'unprivileged_userns_clone=1'],
  ['a hardened server', { 'proc/sys/user/max_user_namespaces': '0\n' }, 'are off', 'max_user_namespaces=15000'],
  ['a hardened unit', { 'proc/self/status': 'Seccomp:\t2\n' }, 'filters its system calls', 'RestrictNamespaces=no'],
])('on a machine like %s, the cause is named with the command that helps', (_, files, cause, remedy) => {
  const found = findObstacle(machine(files));
  expect(found?.cause).toContain(cause);
  expect(found?.remedy.join('\n')).toContain(remedy);
});

test('a machine that allows namespaces has no obstacle, and what binds users does not bind root', () => {
  expect(findObstacle(machine({}))).toBe(undefined);
  expect(findObstacle(machine(APPARMOR, true))).toBe(undefined);
});

test.each([
  ['ID=linuxmint\nID_LIKE="ubuntu debian"\n', 'sudo apt-get install bubblewrap'],
  ['ID="rocky"\nID_LIKE="rhel centos fedora"\n', 'sudo dnf install bubblewrap'],
  ['ID=other\n', 'Install bubblewrap 0.8 or newer'],
])('where bubblewrap is missing, the command of the distribution is said: %j', (release, command) => {
  expect(missingBubblewrap(machine({ 'etc/os-release': release })).remedy).toEqual([command]);
});
