import type { DaemonStatus } from '../../../protocol/status.ts';
import { clientOf, command, JSON_OPTION, type JsonWanted } from '../command.ts';
import type { Exit } from '../exit-codes.ts';
import { duration, oneLine, plain, say, sayJson } from '../print.ts';

export const status = command({
  usage: 'status',
  describe: 'Say whether a daemon is running, what sessions do, and which are polled or blocked, and why',
  builder: (cli) => cli.option('json', JSON_OPTION),
  run: (args) => tellStatus(args),
});

export async function tellStatus(args: JsonWanted): Promise<Exit> {
  const { lockInWords } = await import('../../../client/daemon-status.ts');
  const client = await clientOf(args);
  const owner = client.daemon();
  const seen = client.status();
  const counts: Record<string, number> = {};
  let waitingMessages = 0;
  const problems: Array<{ name: string; problem: string }> = [];
  const faults: Array<{ name: string; fault: string }> = [];
  for await (const { name, standing, inbox, problem, settings } of client.list()) {
    if (settings !== null) faults.push({ name, fault: settings });
    if (problem !== null) problems.push({ name, problem });
    counts[standing] = (counts[standing] ?? 0) + 1;
    waitingMessages += inbox;
  }
  const { root: workspace, log } = client.paths;
  const total = client.sessions().length;
  const uptimeMs = owner ? Math.max(0, Date.now() - Date.parse(owner.at)) : null;
  const daemon = owner && {
    pid: owner.pid,
    since: owner.at,
    host: owner.host,
    epoch: owner.epoch,
    lock: owner.lock,
    uptime_s: Math.floor((uptimeMs ?? 0) / 1000),
  };
  const fault = await client.settingsFault();
  if (args.json) {
    sayJson({
      workspace,
      log,
      daemon: daemon ?? null,
      sessions: { total, ...counts },
      inbox: waitingMessages,
      problems,
      settings: { ...seen?.settings, fault, broken: faults },
      ...(seen && { watching: seen.watching, disk: seen.disk, trouble: seen.trouble }),
    });
  } else {
    say(
      owner ? `The daemon is running: process ${owner.pid}, for ${duration(uptimeMs ?? 0)}.` : 'No daemon is running.',
    );
    say(`Workspace: ${workspace}`);
    say(`Log:       ${log}`);
    if (owner) say(`Lock:      ${lockInWords(owner.lock)}`);
    say(`Sessions:  ${total}${inWords(counts)}`);
    for (const line of settingsLines(seen?.settings, fault, faults)) say(line);
    for (const { name, problem } of problems) say(`Left alone: ${oneLine(`${name}: ${problem}`, 1000)}`);
    if (waitingMessages > 0) say(`Inbox:     ${waitingMessages} not taken yet`);
    for (const line of seen ? linesOf(seen) : []) say(line);
  }
  return owner ? 'ok' : 'daemon';
}

/** Which settings are in force and for how long, and which files do not hold. */
function settingsLines(
  told: DaemonStatus['settings'] | undefined,
  fault: string | null,
  faults: ReadonlyArray<{ name: string; fault: string }>,
): string[] {
  const age = told?.since ? `, in force for ${duration(Math.max(0, Date.now() - Date.parse(told.since)))}` : '';
  const file = told ? plain(told.file) : 'agentd.json';
  const is = {
    file: told?.since ? file : `no ${file}; the defaults are in force`,
    'last good': 'those that held last',
    nothing: 'none',
  };
  const mine = told ? `${is[told.from]}${age}` : file;
  const warnings = [...(told?.warnings ?? []), ...(told?.sessions ?? []).flatMap((one) => one.warnings)];
  return [
    `Settings:  ${mine}`,
    ...(fault === null ? [] : [`Broken:    ${plain(fault)}`]),
    ...faults.map((one) => `Broken:    ${plain(one.fault)}`),
    ...warnings.map((warning) => `Warning:   ${plain(warning)}`),
  ];
}

/** What the daemon sees, and what keeps it from serving sessions. */
function linesOf({ watching, disk, trouble, sessions }: DaemonStatus): string[] {
  const { watched, polled, why, names } = watching;
  const room = { plenty: '', little: '; nothing new is taken in', none: '; no further call is begun' }[disk.room];
  return [
    `Watching:  ${watched} watched${polled > 0 ? `, ${polled} polled: ${why ?? 'they cannot be watched'}` : ''}`,
    ...(polled > 0 ? [`           ${listed(names, polled)}`] : []),
    `Disk:      about ${disk.free_mb} MB free${room && disk.why ? ` (${disk.why})` : ''}${room}`,
    ...(sessions.waiting > 0 ? [`Waiting:   ${sessions.waiting} to be opened, ${sessions.most_open} at a time`] : []),
    ...trouble.sessions.map((one) => `${one.is}: ${oneLine(one.session, 60)}: ${plain(one.why)}`),
    ...(trouble.total > trouble.sessions.length
      ? [`… and ${trouble.total - trouble.sessions.length} more like these`]
      : []),
  ];
}

function listed(names: string[], all: number): string {
  return `${names.map((name) => oneLine(name, 60)).join(', ')}${all > names.length ? ', …' : ''}`;
}

function inWords(counts: Record<string, number>): string {
  const told = ['running', 'waiting', 'paused', 'failed', 'unreadable'].filter((standing) => counts[standing]);
  return told.length === 0 ? '' : ` (${told.map((standing) => `${counts[standing]} ${standing}`).join(', ')})`;
}
