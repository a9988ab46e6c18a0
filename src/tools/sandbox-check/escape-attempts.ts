import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import type { ShellCommand } from '../process/supervisor.ts';
import { MAX_PROCESSES } from '../sandbox/bubblewrap.ts';
import { openSandbox } from '../sandbox/sandbox.ts';
import { shellTool } from '../shell/shell-tool.ts';

const TIMEOUT_S = 20;

/** The outcome of an attempt. `output`: the end of what it printed. */
export type EscapeOutcome = { attempt: EscapeAttempt; isPrevented: boolean; output: string };

/**
 * Runs every escape attempt for real, in temporary folders: no workspace is touched. `mode: none` shows what the
 * harmless ones do without a sandbox. The others mount, create devices and exhaust the machine, so they
 * never run without a sandbox, even if "auto" would run a command. Throws UserError if there is no sandbox.
 */
export async function* runEscapeAttempts(
  env: NodeJS.ProcessEnv,
  { mode, network }: SandboxSettings,
  only: (attempt: EscapeAttempt) => boolean = () => true,
): AsyncGenerator<EscapeOutcome> {
  const bait = `bait-${randomBytes(8).toString('hex')}`;
  const server = await startBaitServer(bait);
  const root = fs.mkdtempSync(join(fs.realpathSync(tmpdir()), 'agentd-escape-'));
  try {
    const stage = buildStage(root, bait, server);
    const own = { ...env, HOME: stage.home, AGENTD_BAIT: bait, BAIT_API_KEY: bait };
    const sandbox = openSandbox({ env: own, hidden: [stage.root] });
    const wrapCommand = async (program: ShellCommand) => {
      const sandboxed = await sandbox.wrapCommand(program, { mode, network }, []);
      if (!sandboxed && mode !== 'none') throw notTriedError('its sandbox is gone');
      return sandboxed;
    };
    const status = sandbox.statusFor({ mode });
    if (mode !== 'none' && !status.isSandboxed) throw notTriedError(status.why);
    const isWeaker = status.isSandboxed && status.weaker !== undefined;
    const tool = shellTool({ env: own, wrapCommand });
    for (const attempt of attemptsFor(mode, isWeaker).filter(only))
      yield await runAttempt(attempt, stage, tool, join(root, `call-${attempt.name}`));
  } finally {
    server.close();
    fs.rmSync(root, { recursive: true, force: true });
  }
}

/** Without a sandbox only harmless attempts; in a weaker fence none of those that only namespaces prevent. */
export const attemptsFor = (mode: SandboxSettings['mode'], isWeaker: boolean): EscapeAttempt[] =>
  ESCAPE_ATTEMPTS.filter(
    (attempt) => (mode !== 'none' || !attempt.isHarmful) && !(isWeaker && attempt.needsNamespaces),
  );

const notTriedError = (why: string) =>
  new UserError(`No escape was attempted, since nothing would contain it: ${why}.`);

async function runAttempt(
  attempt: EscapeAttempt,
  stage: EscapeStage,
  tool: ReturnType<typeof shellTool>,
  folder: string,
): Promise<EscapeOutcome> {
  const before = readGuardedFiles(stage);
  const args = JSON.stringify({ command: `echo begun\n${attempt.command(stage)}`, timeout_s: TIMEOUT_S });
  const context = {
    work: join(stage.mine, 'work'),
    folder,
    signal: new AbortController().signal,
    blob: async () => undefined,
  };
  const { text } = await tool.call(args, context);
  const out = text.includes(stage.bait) || /^ESCAPED$/m.test(text) || readGuardedFiles(stage) !== before;
  return { attempt, isPrevented: !out && text.includes('\nbegun\n'), output: text.slice(-500) };
}

/** Creates a workspace with two sessions, and a home beside it. */
function buildStage(root: string, bait: string, server: Server): EscapeStage {
  const workspace = join(root, 'workspace');
  const [mine, other] = [join(workspace, '.sessions/mine'), join(workspace, '.sessions/other')];
  const home = join(root, 'home');
  for (const folder of [join(mine, 'work'), join(other, 'work'), join(workspace, '.agentd'), join(home, '.ssh')])
    fs.mkdirSync(folder, { recursive: true });
  for (const file of [join(other, 'work/secret'), join(workspace, '.agentd/owner.json'), join(home, '.ssh/id')])
    fs.writeFileSync(file, `${bait}\n`);
  for (const name of ['plan.json', 'events.jsonl']) fs.writeFileSync(join(mine, name), `${bait}\n`);
  fs.symlinkSync('../../other', join(mine, 'work/old-link'));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { root: workspace, mine, other, home, bait, port, pid: process.pid };
}

const readGuardedFiles = ({ mine }: EscapeStage): string =>
  ['plan.json', 'events.jsonl'].map((name) => fs.readFileSync(join(mine, name), 'utf8')).join('\0');

function startBaitServer(bait: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end(`${bait}\n`);
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

/**
 * Files that a command must not reach, set up to be attacked. Each contains the word `bait`.
 */
type EscapeStage = {
  root: string;
  mine: string;
  other: string;
  home: string;
  bait: string;
  port: number;
  pid: number;
};

type EscapeAttempt = {
  name: string;
  /** What is attempted, for a person. */
  tries: string;
  /** A command that prints the bait, or ESCAPED, or changes a file of the stage if it escapes. */
  command: (stage: EscapeStage) => string;
  /** It never runs without a sandbox. Others escape there and do no harm, which proves that they work. */
  isHarmful?: boolean;
  /** Allowed where the network is granted. */
  network?: boolean;
  /** Not prevented by a fence without namespaces. */
  needsNamespaces?: boolean;
};

/** Every escape attempt of `agentctl doctor` and of the tests. */
export const ESCAPE_ATTEMPTS: EscapeAttempt[] = [
  {
    name: 'dots',
    tries: 'a path with `..` to another session and to its own event log',
    command: () => 'cat ../../other/work/secret ../events.jsonl',
  },
  {
    name: 'absolute paths',
    tries: 'the absolute path of another session, of its own event log and of `.agentd/`',
    command: ({ root, mine, other }) => `cat ${other}/work/secret ${mine}/events.jsonl ${root}/.agentd/owner.json`,
  },
  { name: 'home', tries: 'a file in your home folder', command: ({ home }) => `cat ${home}/.ssh/id; cat ~/.ssh/id` },
  {
    name: 'old links',
    tries: 'a symbolic link that is in `work/` before the command begins',
    command: () => 'cat old-link/work/secret',
  },
  {
    name: 'new links',
    tries: 'a symbolic link that the command makes',
    command: ({ other }) => `ln -s ${other} new-link; cat new-link/work/secret`,
  },
  {
    name: 'hard links',
    tries: 'a hard link to a file outside',
    command: ({ other }) => `ln ${other}/work/secret hard && cat hard`,
  },
  {
    name: 'other roots',
    tries: '`/proc/*/root` and `/proc/*/cwd` of every process',
    command: ({ other }) => `for p in /proc/[0-9]*; do cat $p/root${other}/work/secret $p/cwd/../events.jsonl; done`,
  },
  {
    name: 'descriptors',
    tries: 'open descriptors, its own and of those who started it, and the folders around them',
    command: () =>
      'exec 5<..; for f in /proc/$$/fd/* /proc/$PPID/fd/* /proc/1/fd/*; do ' +
      '[ -f "$f" ] && head -c 99 "$f"; [ -d "$f" ] && cat "$f/events.jsonl" "$f/../events.jsonl"; done',
  },
  {
    name: 'the plan',
    tries: 'writing `plan.json`',
    command: ({ mine }) => `echo forged >> ../plan.json; echo forged >> ${mine}/plan.json`,
  },
  {
    name: 'the event log',
    tries: 'writing `events.jsonl`, and replacing it',
    command: ({ mine }) => `echo forged >> ${mine}/events.jsonl; echo forged > x; mv x ${mine}/events.jsonl`,
  },
  {
    name: 'keys',
    tries: 'the environment of the daemon and of every process',
    command: ({ pid }) => `env; cat /proc/self/environ /proc/${pid}/environ /proc/[0-9]*/environ | tr '\\0' '\\n'`,
    isHarmful: true,
  },
  {
    name: 'loopback',
    tries: 'a server on 127.0.0.1',
    command: ({ port }) => `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}; head -c 99 <&3'`,
    network: true,
  },
  {
    name: 'metadata',
    tries: 'the metadata address of cloud machines, 169.254.169.254',
    command: () => "timeout 2 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80 && echo ESCAPED'",
    isHarmful: true,
    network: true,
  },
  {
    name: 'processes',
    tries: 'a signal to the daemon',
    command: ({ pid }) => `kill -0 ${pid} && echo ESCAPED`,
    needsNamespaces: true,
  },
  {
    name: 'privileges',
    tries: 'setuid programs, capabilities, mounts and namespaces of its own',
    command: () =>
      [
        "grep -Eq '^NoNewPrivs:\\s*1$' /proc/self/status || echo ESCAPED",
        "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | grep -qv '0000000000000000$' && echo ESCAPED",
        'cp "$(command -v id)" own && chmod 4755 own && [ "$(./own -u)" != "$(id -u)" ] && echo ESCAPED',
        'mount -t tmpfs none /tmp && echo ESCAPED; umount /proc && echo ESCAPED; mknod disk b 8 0 && echo ESCAPED',
        'unshare --user --map-root-user true && echo ESCAPED',
      ].join('\n'),
    needsNamespaces: true,
    isHarmful: true,
  },
  {
    name: 'system calls',
    tries:
      'a socket to the host of a virtual machine (it is only created), a key in the kernel, typing into a terminal',
    command: () =>
      [
        // Where there is no perl, it is not tried.
        'command -v perl >/dev/null || exit 0',
        'perl -e \'socket(my $s, 40, 1, 0) and print "ESCAPED\\n"\'',
        'case $(uname -m) in x86_64) keyctl=250 ;; aarch64) keyctl=219 ;; *) exit 0 ;; esac',
        'perl -e "exit(syscall($keyctl, 0, -3, 0) > 0 ? 0 : 1)" && echo ESCAPED',
        'perl -e \'open(my $t, "<", "/dev/null"); my $x = "x"; ioctl($t, 0x5412, $x); print "ESCAPED\\n" unless $!{EPERM}\'',
      ].join('\n'),
    isHarmful: true,
  },
  {
    name: 'the system',
    tries: 'writing to the system, to settings of the kernel and to its triggers',
    command: () =>
      [
        'for d in / /usr /usr/bin /etc /opt /dev; do [ -d $d ] && touch $d/.agentd-escape && echo ESCAPED; done',
        'for f in /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness /proc/sysrq-trigger; do [ -w $f ] && echo ESCAPED; done',
        '[ -r /etc/shadow ] && [ -s /etc/shadow ] && echo ESCAPED; true',
      ].join('\n'),
    isHarmful: true,
  },
  {
    name: 'the terminal',
    tries: 'the terminal of the daemon',
    command: () => 'true < /dev/tty && echo ESCAPED',
    isHarmful: true,
  },
  {
    name: 'fork bomb',
    tries: 'more processes than it may have',
    command: () =>
      `sh -c 'n=0; while [ $n -lt ${MAX_PROCESSES + 200} ]; do sleep 5 & n=$((n + 1)); done; echo ESCAPED'; kill -KILL -1`,
    needsNamespaces: true,
    isHarmful: true,
  },
  {
    name: 'limits',
    tries: 'a file of 8 GiB, and the limits of memory, time and core dumps',
    command: () =>
      [
        'dd if=/dev/zero of=large bs=1 count=1 seek=8G 2>/dev/null && echo ESCAPED',
        'bash -c \'ulimit -d; ulimit -t\' | grep -q unlimited && echo ESCAPED; [ "$(ulimit -c)" = 0 ] || echo ESCAPED; rm -f large',
      ].join('\n'),
    needsNamespaces: true,
    isHarmful: true,
  },
];
