import { homedir, userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { sha256 } from '../../../base/sha256.ts';
import { AGENTD_EXIT_CODES } from '../../command-line.ts';

/** Whose service manager runs it: that of this user, or that of the machine. */
export type Scope = 'user' | 'system';

/** What a service is made of. Paths are absolute. */
export type ServicePlan = {
  scope: Scope;
  root: string;
  /** The programs, each after the Node that runs it. */
  node: string;
  agentd: string;
  agentctl: string;
  /** Flags of the daemon. */
  flags: readonly string[];
  /** PATH of the daemon and of what it starts. */
  path: string;
  /** System only: the account it runs as. */
  account: string;
  /** Port of `agentctl serve`; undefined where only the daemon is wanted. */
  port: number | undefined;
  /** The channels of the settings, each a unit. */
  channels: readonly string[];
};

/** One file for the service manager. `unit`: its name there. */
export type ServiceFile = { unit: string; path: string; text: string };

/** Where a system service keeps its workspace unless another is named; systemd makes its folder. */
export const SYSTEM_WORKSPACE = '/var/lib/agentd/workspace';

/** The exit codes after which a new start would end in the same way. */
const FINAL_EXITS = [AGENTD_EXIT_CODES.usage, AGENTD_EXIT_CODES.owned, AGENTD_EXIT_CODES.lost].map(({ code }) => code);

/** The names of the units of a workspace: the usual one has the plain name. */
export function unitNames(
  scope: Scope,
  root: string,
): { daemon: string; serve: string; channel: (name: string) => string } {
  const usual = scope === 'system' ? SYSTEM_WORKSPACE : join(homedir(), '.workspace');
  const hash = sha256(root).slice(0, 6);
  const readable = basename(root).replace(/[^A-Za-z0-9]+/g, '-');
  const name = root === usual ? 'agentd' : `agentd-${readable}-${hash}`;
  // No name of a workspace has a dot in it.
  return { daemon: name, serve: `${name}-serve`, channel: (one) => `${name}.channel-${one}` };
}

/** The folder that the service manager reads. */
export function unitFolder(scope: Scope, env: NodeJS.ProcessEnv): string {
  if (process.platform === 'darwin')
    return scope === 'system' ? '/Library/LaunchDaemons' : join(homedir(), 'Library/LaunchAgents');
  if (scope === 'system') return '/etc/systemd/system';
  return join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'systemd/user');
}

/** The file with keys that a unit reads; nobody has to have one. */
export function keysFile(scope: Scope, env: NodeJS.ProcessEnv): string {
  if (scope === 'system') return '/etc/agentd/keys.env';
  return join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'agentd.env');
}

/** All files of a service, the daemon's first. */
export function serviceFiles(plan: ServicePlan, env: NodeJS.ProcessEnv): ServiceFile[] {
  const names = unitNames(plan.scope, plan.root);
  const isMac = process.platform === 'darwin';
  const daemon = [plan.node, plan.agentd, '--workspace', plan.root, ...plan.flags];
  const serve = [plan.node, plan.agentctl, '--workspace', plan.root, 'serve', '--port', String(plan.port)];
  const file = (name: string, words: readonly string[], lines: UnitLines): ServiceFile => {
    const unit = isMac ? name : `${name}.service`;
    const text = isMac
      ? propertyList(name, words, plan)
      : systemdUnit(name, words, lines, plan, keysFile(plan.scope, env));
    return { unit, path: join(unitFolder(plan.scope, env), isMac ? `${name}.plist` : unit), text };
  };
  const page: UnitLines = {
    title: `agentctl serve for ${plan.root}`,
    order: [`After=${names.daemon}.service`],
    service: ['Type=exec', `RestartPreventExitStatus=${AGENTD_EXIT_CODES.usage.code}`],
  };
  return [
    file(names.daemon, daemon, { title: `agentd for ${plan.root}`, order: [], service: DAEMON_LINES }),
    ...(plan.port === undefined ? [] : [file(names.serve, serve, page)]),
    ...plan.channels.map((name) => {
      const words = [plan.node, plan.agentctl, '--workspace', plan.root, 'channel', 'run', name];
      return file(names.channel(name), words, { ...page, title: `the channel ${name} of agentd for ${plan.root}` });
    }),
  ];
}

/** What units differ in. */
type UnitLines = { title: string; order: readonly string[]; service: readonly string[] };

const DAEMON_LINES = [
  'Type=notify',
  '# The notes are sent by a program of systemd that the daemon starts.',
  'NotifyAccess=all',
  '# A new start would not help: 2 invalid command line, 3 the workspace has a daemon, 8 it was taken over or replaced.',
  `RestartPreventExitStatus=${FINAL_EXITS.join(' ')}`,
  'TimeoutStartSec=120',
  'TimeoutStopSec=60',
  'WatchdogSec=90',
  'WatchdogSignal=SIGKILL',
  '# Background jobs of the agent outlive a restart.',
  'KillMode=process',
  'OOMPolicy=continue',
];

function systemdUnit(
  name: string,
  words: readonly string[],
  { title, order, service }: UnitLines,
  { scope, path, account }: ServicePlan,
  keys: string,
): string {
  const isSystem = scope === 'system';
  const lines = [
    '# Written by agentctl service install, which replaces it.',
    '[Unit]',
    `Description=${title.replaceAll('%', '%%')}`,
    ...(isSystem ? ['Wants=network-online.target', 'After=network-online.target'] : []),
    ...order,
    'StartLimitIntervalSec=300',
    'StartLimitBurst=5',
    '',
    '[Service]',
    `ExecStart=${words.map((word) => quoteForUnit(word, true)).join(' ')}`,
    `SyslogIdentifier=${name}`,
    '# Keys, such as OPENAI_API_KEY=…; readable by its account only.',
    `EnvironmentFile=-${keys.replaceAll('%', '%%')}`,
    `Environment=${quoteForUnit(`PATH=${path}`, false)} UV_THREADPOOL_SIZE=16`,
    ...(isSystem ? [`User=${account}`, 'StateDirectory=agentd', 'StateDirectoryMode=0700'] : []),
    'UMask=0077',
    'Restart=on-failure',
    'RestartSec=5',
    ...service,
    '',
    '[Install]',
    `WantedBy=${isSystem ? 'multi-user.target' : 'default.target'}`,
  ];
  return `${lines.join('\n')}\n`;
}

/** A word for systemd, which reads quotation marks, `%` and, in a command, `$`. */
function quoteForUnit(word: string, isCommand: boolean): string {
  const escaped = word.replace(/["\\]/g, '\\$&').replaceAll('%', '%%');
  const text = isCommand ? escaped.replaceAll('$', '$$$$') : escaped;
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `"${text}"`;
}

/** The same for launchd, which starts again whatever ended with another code than 0. */
function propertyList(label: string, words: readonly string[], { scope, path, account }: ServicePlan): string {
  const text = (value: string) => `<string>${value.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</string>`;
  const log = scope === 'system' ? `/var/log/${label}.log` : join(userInfo().homedir, `Library/Logs/${label}.log`);
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>${text(label)}
  <key>ProgramArguments</key>
  <array>${words.map(text).join('')}</array>
  <key>EnvironmentVariables</key>
  <dict><key>PATH</key>${text(path)}<key>UV_THREADPOOL_SIZE</key><string>16</string></dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>30</integer>
  <key>AbandonProcessGroup</key><true/>
  <key>Umask</key><integer>63</integer>
  <key>StandardErrorPath</key>${text(log)}
${scope === 'system' ? `  <key>UserName</key>${text(account)}\n` : ''}</dict>
</plist>
`;
}
