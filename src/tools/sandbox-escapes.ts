import { MOST_PROCESSES } from './sandbox-bwrap.ts';

/** What is out of bounds for a command, laid out to be reached for. `bait` is a word that stands in every file of it. */
export type Stage = {
  root: string;
  mine: string;
  other: string;
  home: string;
  bait: string;
  port: number;
  pid: number;
};

export type Escape = {
  name: string;
  /** What is tried, for a person. */
  tries: string;
  /** A command that says the bait, or ESCAPED, or changes a file of the stage, where it gets out. */
  command: (stage: Stage) => string;
  /** Without a sandbox it does get out, and does no harm: so it is a real try. */
  free: boolean;
  /** Not out of bounds where the network is granted. */
  network?: boolean;
};

/** Every way out that is tried by \`agentctl doctor\` and by the tests. */
export const ESCAPES: Escape[] = [
  {
    name: 'dots',
    tries: 'a path with `..` to another session and to the own record',
    command: () => 'cat ../../other/work/secret ../events.jsonl',
    free: true,
  },
  {
    name: 'absolute paths',
    tries: 'the whole path of another session, of the own record and of `.agentd/`',
    command: ({ root, mine, other }) => `cat ${other}/work/secret ${mine}/events.jsonl ${root}/.agentd/owner.json`,
    free: true,
  },
  {
    name: 'home',
    tries: 'a file in the home folder of the person',
    command: ({ home }) => `cat ${home}/.ssh/id; cat ~/.ssh/id`,
    free: true,
  },
  {
    name: 'old links',
    tries: 'a symbolic link that lies in `work/` before the command begins',
    command: () => 'cat old-link/work/secret',
    free: true,
  },
  {
    name: 'new links',
    tries: 'a symbolic link that the command makes',
    command: ({ other }) => `ln -s ${other} new-link; cat new-link/work/secret`,
    free: true,
  },
  {
    name: 'hard links',
    tries: 'a hard link to a file outside',
    command: ({ other }) => `ln ${other}/work/secret hard && cat hard`,
    free: true,
  },
  {
    name: 'other roots',
    tries: '`/proc/*/root` and `/proc/*/cwd` of every process',
    command: ({ other }) => `for p in /proc/[0-9]*; do cat $p/root${other}/work/secret $p/cwd/../events.jsonl; done`,
    free: true,
  },
  {
    name: 'descriptors',
    tries: 'open descriptors, its own and of those who started it, and the folders around them',
    command: () =>
      'exec 5<..; for f in /proc/$$/fd/* /proc/$PPID/fd/* /proc/1/fd/*; do ' +
      '[ -f "$f" ] && head -c 99 "$f"; [ -d "$f" ] && cat "$f/events.jsonl" "$f/../events.jsonl"; done',
    free: true,
  },
  {
    name: 'the plan',
    tries: 'writing `plan.json`',
    command: ({ mine }) => `echo forged >> ../plan.json; echo forged >> ${mine}/plan.json`,
    free: true,
  },
  {
    name: 'the record',
    tries: 'writing `events.jsonl`, and putting another in its place',
    command: ({ mine }) => `echo forged >> ${mine}/events.jsonl; echo forged > x; mv x ${mine}/events.jsonl`,
    free: true,
  },
  {
    name: 'keys',
    tries: 'the environment of the daemon and of every process',
    command: ({ pid }) => `env; cat /proc/self/environ /proc/${pid}/environ /proc/[0-9]*/environ | tr '\\0' '\\n'`,
    free: false,
  },
  {
    name: 'loopback',
    tries: 'a server on 127.0.0.1',
    command: ({ port }) => `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}; head -c 99 <&3'`,
    free: true,
    network: true,
  },
  {
    name: 'metadata',
    tries: 'the metadata address of cloud machines, 169.254.169.254',
    command: () => "timeout 2 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80 && echo ESCAPED'",
    free: false,
    network: true,
  },
  {
    name: 'processes',
    tries: 'a signal to the daemon',
    command: ({ pid }) => `kill -0 ${pid} && echo ESCAPED`,
    free: true,
  },
  {
    name: 'powers',
    tries: 'setuid programs, capabilities, mounts and namespaces of its own',
    command: () =>
      [
        "grep -Eq '^NoNewPrivs:\\s*1$' /proc/self/status || echo ESCAPED",
        "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | grep -qv '0000000000000000$' && echo ESCAPED",
        'cp "$(command -v id)" own && chmod 4755 own && [ "$(./own -u)" != "$(id -u)" ] && echo ESCAPED',
        'mount -t tmpfs none /tmp && echo ESCAPED; umount /proc && echo ESCAPED; mknod disk b 8 0 && echo ESCAPED',
        'unshare --user --map-root-user true && echo ESCAPED',
      ].join('\n'),
    free: false,
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
    free: false,
  },
  {
    name: 'the terminal',
    tries: 'the terminal of the daemon',
    command: () => 'true < /dev/tty && echo ESCAPED',
    free: false,
  },
  {
    name: 'fork bomb',
    tries: 'more processes than it may have',
    command: () =>
      `sh -c 'n=0; while [ $n -lt ${MOST_PROCESSES + 200} ]; do sleep 5 & n=$((n + 1)); done; echo ESCAPED'; kill -KILL -1`,
    free: false,
  },
  {
    name: 'limits',
    tries: 'a file of 8 GiB, and what is said of memory, time and crash dumps',
    command: () =>
      [
        'dd if=/dev/zero of=large bs=1 count=1 seek=8G 2>/dev/null && echo ESCAPED',
        'bash -c \'ulimit -d; ulimit -t\' | grep -q unlimited && echo ESCAPED; [ "$(ulimit -c)" = 0 ] || echo ESCAPED; rm -f large',
      ].join('\n'),
    free: false,
  },
];
