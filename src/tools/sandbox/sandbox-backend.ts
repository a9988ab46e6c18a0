import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { attempt } from '../../base/user-error.ts';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';

/** What a sandbox shows of the machine besides system files. */
export type SandboxView = {
  readAlso: string[];
  /** Writable files and folders outside `work/`. */
  write?: string[];
  network: boolean;
};

/** A program that keeps running between calls and communicates over stdin and stdout, such as an MCP server. */
export type ServerProgram = {
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Its working folder; default: its home. */
  cwd: string | undefined;
  read: string[];
  write: string[];
  network: boolean;
  /** How the session's `work/` is mounted; default: not at all. */
  work?: { path: string; writable: boolean } | undefined;
};

/** How such a program is started, sandboxed or not. */
export type ServerLaunch = {
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** A descriptor passed to it as number 3; the starter closes its own copy. */
  folder?: number | undefined;
  /** Call once it has ended. */
  release(): void;
};

/** A kind of sandbox, verified to work on this machine. */
export type SandboxBackend = {
  kind: 'bwrap' | 'sandbox-exec' | 'landlock';
  /** What it does not restrict on this machine, in sentences. */
  gaps: string[];
  /** Whether its program still exists. */
  isAvailable(): boolean;
  wrapCommand(program: ShellCommand, view: SandboxView): Promise<SandboxedCommand>;
  /** Throws UserError if a path it needs cannot be made visible. */
  prepareServer(server: ServerProgram): Promise<ServerLaunch>;
};

/** `remedy`: lines that say what to do about it, such as a command. */
export type BackendProbe = { backend: SandboxBackend } | { backend: null; why: string; remedy: string[] };

/** Runs a program as a test: null on success, else its output. */
export function tryProgram(words: string[], env: NodeJS.ProcessEnv): string | null {
  const [program = '', ...args] = words;
  const { error, status, signal, stderr } = spawnSync(program, args, { env, encoding: 'utf8', timeout: 10_000 });
  if (error) return `${program} cannot be run (${error.message})`;
  return status === 0 ? null : stderr.trim().split('\n')[0] || `${program} ended with ${signal ?? status}`;
}

/** Why no sandbox starts, in a few words, and what to do about it: lines to read or to type. */
export type Obstacle = { cause: string; remedy: string[] };

/** The machine as far as it decides whether namespaces can be made. `root`: where its files are. */
type Machine = { root: string; isRoot: boolean };

const HERE: Machine = { root: '/', isRoot: process.getuid?.() === 0 };

/** How distributions install, by `ID` or `ID_LIKE` in `os-release`. */
const INSTALL = {
  debian: 'apt-get install',
  fedora: 'dnf install',
  suse: 'zypper install',
  arch: 'pacman -S',
  alpine: 'apk add',
};

/** Where bubblewrap is not installed. */
export function missingBubblewrap({ root }: Machine = HERE): Obstacle {
  const system = [...(read(root, 'etc/os-release') ?? '').matchAll(/^ID(?:_LIKE)?=(.*)$/gm)].map(([, id]) => id);
  const known = Object.entries(INSTALL).find(([name]) => system.some((id) => id?.includes(name)));
  const command = known ? `sudo ${known[1]} bubblewrap` : 'Install bubblewrap 0.8 or newer';
  return { cause: 'bubblewrap is not installed', remedy: [command] };
}

/**
 * What of this machine keeps an installed bubblewrap from starting; undefined if nothing of it is known to. A container
 * comes first: what else is set belongs to its host.
 */
export function findObstacle({ root, isRoot }: Machine = HERE): Obstacle | undefined {
  const isSet = (path: string, value: string) => read(root, path)?.trim() === value;
  const has = (path: string) => fs.existsSync(join(root, path));
  if (has('var/run/secrets/kubernetes.io')) return POD;
  if (has('run/.containerenv'))
    return containerObstacle('podman', ['seccomp=unconfined', 'label=disable', 'unmask=ALL']);
  if (has('.dockerenv'))
    return containerObstacle('docker', ['seccomp=unconfined', 'apparmor=unconfined', 'systempaths=unconfined']);
  if (!has('proc/self/ns/user'))
    return { cause: 'this Linux is built without user namespaces', remedy: ['Use a kernel with CONFIG_USER_NS=y.'] };
  if (isSet('proc/sys/user/max_user_namespaces', '0')) return sysctlObstacle('user.max_user_namespaces', '15000');
  if (!isRoot && isSet('proc/sys/kernel/unprivileged_userns_clone', '0'))
    return sysctlObstacle('kernel.unprivileged_userns_clone', '1');
  if (!isRoot && isSet('proc/sys/kernel/apparmor_restrict_unprivileged_userns', '1')) return APPARMOR;
  if (/^Seccomp:\s*[12]$/m.test(read(root, 'proc/self/status') ?? '')) return OUTER_FILTER;
  return undefined;
}

const FORBIDS = 'forbids namespaces and a fresh /proc to what runs in it';
const POD: Obstacle = {
  cause: `this pod ${FORBIDS}`,
  remedy: [
    'In the pod, spec.hostUsers: false; and for its container, under securityContext, these:',
    'procMount: Unmasked, seccompProfile: { type: Unconfined }, appArmorProfile: { type: Unconfined }',
  ],
};
const containerObstacle = (program: string, options: string[]): Obstacle => ({
  cause: `this container ${FORBIDS}`,
  remedy: [`${program} run ${options.map((one) => `--security-opt ${one}`).join(' ')} …`],
});

const sysctlObstacle = (name: string, wanted: string): Obstacle => ({
  cause: `user namespaces are off (${name} is 0)`,
  remedy: [`echo '${name}=${wanted}' | sudo tee /etc/sysctl.d/60-agentd.conf && sudo sysctl --system`],
});

const PROFILE = String.raw`abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\n  userns,\n}\n`;
const APPARMOR: Obstacle = {
  cause: 'AppArmor allows user namespaces only to programs with a profile (as in Ubuntu 24.04), and bwrap has none',
  remedy: [`printf '${PROFILE}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`],
};

const OUTER_FILTER: Obstacle = {
  cause:
    'what started this process filters its system calls (a container, or RestrictNamespaces= in a unit of systemd)',
  remedy: [
    'In its unit: RestrictNamespaces=no, and no SystemCallFilter= and PrivateUsers=. In a container: seccomp unconfined.',
  ],
};

function read(root: string, path: string): string | undefined {
  return attempt(() => fs.readFileSync(join(root, path), 'utf8'));
}
