import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode, UserError } from '../../../base/user-error.ts';
import { type Scope, type ServiceFile, unitFolder, unitNames } from './service-files.ts';

const run = promisify(execFile);
/** A start waits until the daemon is ready. */
const LIMIT_MS = 180_000;

/** An installed service of a workspace. `file`: that of the daemon; `others`: the units of the page and of channels. */
export type InstalledService = { scope: Scope; unit: string; file: string; others: readonly string[] };

/** Between two starts, after a crash, a unit is neither up nor down. */
export type UnitState = { isUp: boolean; isDown: boolean; text: string };

/** The service that was installed for this workspace; undefined if there is none. */
export function findService(root: string, env: NodeJS.ProcessEnv): InstalledService | undefined {
  const [dot, suffix] = process.platform === 'darwin' ? ['.plist', ''] : ['.service', '.service'];
  for (const scope of ['user', 'system'] as const) {
    const names = unitNames(scope, root);
    const folder = unitFolder(scope, env);
    const file = join(folder, names.daemon + dot);
    if (!fs.existsSync(file)) continue;
    const all = fs.readdirSync(folder).flatMap((name) => (name.endsWith(dot) ? name.slice(0, -dot.length) : []));
    const isOther = (name: string) => name === names.serve || name.startsWith(names.channel(''));
    const others = all.filter(isOther).sort();
    return { scope, unit: names.daemon + suffix, file, others: others.map((name) => name + suffix) };
  }
  return undefined;
}

/** Starts, stops or restarts it and waits until that is done. Throws UserError with what the service manager says. */
export async function controlService(
  { scope, unit, file }: InstalledService,
  verb: 'start' | 'stop' | 'restart',
): Promise<void> {
  if (process.platform !== 'darwin') {
    // After five crashes in a row, systemd refuses a start by hand, too.
    await systemctl(scope, ['reset-failed', unit]).catch(() => {});
    await systemctl(scope, [verb, unit]);
  } else if (verb === 'stop') await launchctl(['bootout', `${launchDomain(scope)}/${unit}`]);
  else {
    if (verb === 'restart') await launchctl(['bootout', `${launchDomain(scope)}/${unit}`]).catch(() => {});
    await launchctl(['bootstrap', launchDomain(scope), file]);
  }
}

/** Writes the files and has the service manager start them, now and with the machine. */
export async function installFiles(scope: Scope, files: readonly ServiceFile[]): Promise<void> {
  if (process.platform !== 'darwin') await systemctl(scope, ['show-environment']);
  for (const { path, text } of files) {
    fs.mkdirSync(join(path, '..'), { recursive: true });
    fs.writeFileSync(`${path}.new`, text, { mode: 0o644 });
    fs.renameSync(`${path}.new`, path);
  }
  if (process.platform !== 'darwin') {
    await systemctl(scope, ['daemon-reload']);
    await systemctl(scope, ['enable', ...files.map(({ unit }) => unit)]);
  }
  for (const { unit, path } of files) await controlService({ scope, unit, file: path, others: [] }, 'restart');
}

/** Stops units of a service and removes their files. */
export async function removeFiles(
  { scope, file }: Pick<InstalledService, 'scope' | 'file'>,
  units: readonly string[],
): Promise<string[]> {
  const removed = units.map((name) => join(file, '..', process.platform === 'darwin' ? `${name}.plist` : name));
  if (process.platform === 'darwin')
    for (const name of units) await launchctl(['bootout', `${launchDomain(scope)}/${name}`]).catch(() => {});
  else await systemctl(scope, ['disable', '--now', ...units]);
  for (const path of removed) fs.rmSync(path, { force: true });
  if (process.platform !== 'darwin') await systemctl(scope, ['daemon-reload']);
  return removed;
}

/** What the service manager says of a unit, in one line. `isUp`: it runs; `isDown`: nor will it be started again. */
export async function unitState(scope: Scope, unit: string): Promise<UnitState> {
  if (process.platform === 'darwin') {
    const text = await launchctl(['print', `${launchDomain(scope)}/${unit}`]).catch(() => '');
    const [, state = 'not loaded'] = /^\s*state = (.*)$/m.exec(text) ?? [];
    return { isUp: state === 'running', isDown: state !== 'running', text: state };
  }
  const wanted = ['ActiveState', 'SubState', 'MainPID', 'StatusText', 'NRestarts', 'Result', 'ExecMainStatus'];
  const out = await systemctl(scope, ['show', unit, '--property', wanted.join(',')]);
  const of = Object.fromEntries(out.split('\n').map((line) => line.split(/=(.*)/s).slice(0, 2)));
  const isUp = of['ActiveState'] === 'active';
  const parts = [
    `${of['ActiveState']} (${of['SubState']})`,
    ...(isUp ? [`process ${of['MainPID']}`] : [`result ${of['Result']}, exit ${of['ExecMainStatus']}`]),
    ...(of['StatusText'] ? [of['StatusText']] : []),
    ...(of['NRestarts'] !== '0' ? [`restarted ${of['NRestarts']} times`] : []),
  ];
  return { isUp, isDown: /^(?:inactive|failed)$/.test(of['ActiveState'] ?? ''), text: parts.join(', ') };
}

/** Whether services of this user run while nobody is logged in; undefined where that is no question. */
export function isLingering(scope: Scope): boolean | undefined {
  if (scope === 'system' || process.platform !== 'linux') return undefined;
  return fs.existsSync(`/var/lib/systemd/linger/${userInfo().username}`);
}

/** Has them run while nobody is logged in; false if this user may not. */
export async function enableLinger(): Promise<boolean> {
  return run('loginctl', ['enable-linger'], { timeout: 20_000 }).then(
    () => true,
    () => false,
  );
}

/** What a person types to see the log. */
export const logCommand = (scope: Scope, unit: string): string =>
  `journalctl ${scope === 'user' ? '--user ' : ''}-u ${unit}`;

const launchDomain = (scope: Scope) => (scope === 'system' ? 'system' : `gui/${process.getuid?.()}`);

const launchctl = (words: readonly string[]): Promise<string> => ask('launchctl', words, '');

async function systemctl(scope: Scope, words: readonly string[]): Promise<string> {
  const flags = scope === 'user' ? ['--user'] : [];
  const unit = words.find((word) => word.endsWith('.service'));
  const log = unit === undefined ? '' : ` See: ${logCommand(scope, unit)} -n 30`;
  return ask('systemctl', [...flags, '--no-ask-password', ...words], log);
}

async function ask(program: string, words: readonly string[], advice: string): Promise<string> {
  try {
    return (await run(program, [...words], { timeout: LIMIT_MS })).stdout;
  } catch (error) {
    if (errorCode(error) === 'ENOENT')
      throw new UserError(
        `${program} was not found: this machine has no service manager that agentctl knows. "agentctl service install --print" prints the unit of systemd, and "agentctl start" works everywhere.`,
      );
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : String(error);
    const bus = /Failed to connect to (?:user scope )?bus/.test(said)
      ? ' Log in as this user itself (not by su or sudo), or set XDG_RUNTIME_DIR=/run/user/$(id -u). For a service of the machine: --system, as root.'
      : '';
    throw new UserError(`${[program, ...words].join(' ')} failed: ${said}${bus}${advice}`);
  }
}
