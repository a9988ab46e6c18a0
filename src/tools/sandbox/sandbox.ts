import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { UserError } from '../../base/user-error.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import { isInSessionFolder } from '../../protocol/workspace/session-names.ts';
import type { CallEffects } from '../common/define-tool.ts';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';
import { bubblewrapBackend } from './bubblewrap.ts';
import type { BackendProbe, ServerLaunch, ServerProgram } from './sandbox-backend.ts';
import { seatbeltBackend } from './seatbelt.ts';

/**
 * Whether a command is sandboxed. If not: why, as text for a person, and whether a person chose so (`sandbox: none`),
 * in which case no approval is needed. `refused`: a sandbox is required but unavailable, so no command runs.
 */
export type SandboxStatus =
  | { held: true; gaps: string[] }
  | { held: false; why: string; chosen: boolean; refused: boolean };

/** A try starts a program and blocks the daemon meanwhile. */
const RETRY_MS = 10_000;

type Wish = Pick<SandboxSettings, 'mode'> & Partial<SandboxSettings>;

/** Where commands run. */
export type Sandbox = {
  /** Determined by actually starting a sandbox. */
  statusFor(wish: Wish): SandboxStatus;
  /** Null if the command is to run without a sandbox. Throws UserError if that is not allowed. */
  wrapCommand(program: ShellCommand, wish: SandboxSettings, readAlso: string[]): Promise<SandboxedCommand | null>;
  /** The same for a server, by the `mode` of its entry. */
  prepareServer(server: ServerProgram, mode: SandboxSettings['mode']): Promise<ServerLaunch>;
};

export type SandboxOptions = {
  env: NodeJS.ProcessEnv;
  /** Folders that no sandbox may see, except the session's own `work/`: the workspace. */
  hidden: string[];
  /** Called once when commands run without a sandbox although nobody chose that. */
  warn?: (text: string) => void;
  /** How long to wait before looking for one again, in ms. */
  retryMs?: number;
};

/**
 * The sandbox of this system, tried at first use, and again if none was found or it is gone: it may be installed at any
 * time.
 */
export function openSandbox({ env, hidden, warn = () => undefined, retryMs = RETRY_MS }: SandboxOptions): Sandbox {
  let found: BackendProbe | undefined;
  let lookedAt = 0;
  const warned = new Set<string>();
  const look = (): BackendProbe => {
    const isOld = found?.backend ? !found.backend.isAvailable() : performance.now() - lookedAt >= retryMs;
    if (found && !isOld) return found;
    found = process.platform === 'darwin' ? seatbeltBackend({ env, hidden }) : bubblewrapBackend({ env, hidden });
    lookedAt = performance.now();
    if (found.backend) warned.clear();
    return found;
  };
  const hold = ({ mode }: Wish): SandboxStatus => {
    if (mode === 'none') return { held: false, why: '`sandbox` is "none"', chosen: true, refused: false };
    const { backend, ...not } = look();
    if (backend && (mode === 'auto' || backend.kind === mode)) return { held: true, gaps: backend.gaps };
    const why = 'why' in not ? not.why : `here it is ${backend?.kind}, not ${mode}`;
    return { held: false, why, chosen: false, refused: mode !== 'auto' };
  };
  /** Whether it is sandboxed; warns once if it is not and nobody chose that. Throws UserError if it must be. */
  const isHeld = (what: string, mode: SandboxSettings['mode'], remedy: string): boolean => {
    const held = hold({ mode });
    if (held.held) return true;
    if (held.refused)
      throw new UserError(`The ${what} was not run: \`sandbox\` is "${mode}", and none works here: ${held.why}.`);
    if (!held.chosen && !warned.has(what)) {
      warned.add(what);
      warn(`${what}s run without a sandbox: ${held.why}. ${remedy} confirms that this is intended`);
    }
    return false;
  };
  return {
    statusFor: hold,
    async wrapCommand(program, wish, readAlso) {
      if (!isHeld('command', wish.mode, '"sandbox": "none" in agentd.json')) return null;
      return (await look().backend?.wrapCommand(program, { readAlso, network: wish.network })) ?? null;
    },
    async prepareServer(server, mode) {
      const held = isHeld('MCP server', mode, '"sandbox": "none" in its entry')
        ? look().backend?.prepareServer(server)
        : undefined;
      return held ?? launchUnsandboxed(server);
    },
  };
}

/** How a server is started without a sandbox. */
export function launchUnsandboxed({ command, args, env, cwd }: ServerProgram): ServerLaunch {
  return { command, args, env, cwd: cwd ?? homeFolder(env), release: () => undefined };
}

/** The person's own home folder, unless a model writes to it. */
function homeFolder(env: Record<string, string>): string {
  const home = env['HOME'] ?? homedir();
  return fs.existsSync(home) && !isInSessionFolder(home) && !isInSessionFolder(fs.realpathSync(home)) ? home : '/';
}

/**
 * What a command can reach, sandboxed or not. What a person chose (`sandbox: "none"`, `network.shell`) is granted; if
 * no sandbox works and nobody chose that, each command needs approval. A command that will be refused reaches nothing.
 */
export function effectsOfCommand(hold: SandboxStatus, { network }: SandboxSettings): CallEffects {
  if (hold.held) return network ? { touches: ['work', 'network'], granted: ['network'] } : { touches: ['work'] };
  if (hold.refused) return { touches: [] };
  if (hold.chosen) return { touches: ['work', 'network', 'outside'], granted: ['network', 'outside'] };
  return { touches: ['work', 'network', 'outside'], unheld: `it would run without a sandbox: ${hold.why}` };
}
