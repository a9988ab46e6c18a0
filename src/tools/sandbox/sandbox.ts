import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { UserError } from '../../base/user-error.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import { isInSessionFolder } from '../../protocol/workspace/session-names.ts';
import type { CallEffects } from '../common/define-tool.ts';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';
import { bubblewrapBackend } from './bubblewrap.ts';
import type { BackendProbe, SandboxBackend, ServerLaunch, ServerProgram } from './sandbox-backend.ts';
import { landlockBackend, seatbeltBackend } from './without-namespaces.ts';

/** Why there is no sandbox, or no better one, and lines that say what to do about it. */
type Missing = { why: string; remedy?: string[] };

/**
 * Whether a command is sandboxed; `weaker`: in a fence without namespaces. If not: why, and whether a person chose so
 * (`sandbox: none`), in which case no approval is needed. `isRefused`: one is required, so no command runs.
 */
export type SandboxStatus =
  | { isSandboxed: true; gaps: string[]; weaker?: Missing }
  | ({ isSandboxed: false; isChosen: boolean; isRefused: boolean } & Missing);

/** How often a missing sandbox is tried again; a try starts a program, which blocks the daemon. */
const RETRY_MS = 10_000;

type SandboxRequest = Pick<SandboxSettings, 'mode'> & Partial<SandboxSettings>;

/** Where commands run. */
export type Sandbox = {
  /** Determined by actually starting a sandbox. */
  statusFor(request: SandboxRequest): SandboxStatus;
  /** Null if the command is to run without a sandbox. Throws UserError if that is not allowed. */
  wrapCommand(program: ShellCommand, settings: SandboxSettings, readAlso: string[]): Promise<SandboxedCommand | null>;
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
  let weaker: SandboxBackend | null = null;
  let probedAt = 0;
  const warned = new Set<string>();
  const probe = (): BackendProbe => {
    const isOld = found?.backend ? !found.backend.isAvailable() : performance.now() - probedAt >= retryMs;
    if (found && !isOld) return found;
    found = process.platform === 'darwin' ? seatbeltBackend({ env, hidden }) : bubblewrapBackend({ env, hidden });
    weaker = found.backend || process.platform === 'darwin' ? null : landlockBackend({ env, hidden }).backend;
    probedAt = performance.now();
    if (found.backend) warned.clear();
    return found;
  };
  const backendFor = (mode: SandboxRequest['mode']): SandboxBackend | null => {
    const { backend } = probe();
    return backend && (mode === 'auto' || backend.kind === mode) ? backend : mode === 'auto' ? weaker : null;
  };
  const statusFor = ({ mode }: SandboxRequest): SandboxStatus => {
    if (mode === 'none') return { isSandboxed: false, why: '`sandbox` is "none"', isChosen: true, isRefused: false };
    const { backend: best, ...not } = probe();
    const missing = 'why' in not ? not : { why: `here it is ${best?.kind}, not ${mode}` };
    const backend = backendFor(mode);
    if (!backend) return { isSandboxed: false, ...missing, isChosen: false, isRefused: mode !== 'auto' };
    return { isSandboxed: true, gaps: backend.gaps, ...(backend === best ? {} : { weaker: missing }) };
  };
  /** Whether it is sandboxed; warns once if it is not and nobody chose that. Throws UserError if it must be. */
  const requireSandbox = (what: string, mode: SandboxSettings['mode'], remedy: string): boolean => {
    const status = statusFor({ mode });
    if (status.isSandboxed) {
      if (status.weaker && !warned.has('weaker')) warn(`commands run in a weaker fence: ${status.weaker.why}`);
      if (status.weaker) warned.add('weaker');
      return true;
    }
    if (status.isRefused)
      throw new UserError(
        `The ${what} was not run: \`sandbox\` is "${mode}", and none works here: ${status.why}. \`agentctl doctor\` says what to do.`,
      );
    if (!status.isChosen && !warned.has(what)) {
      warned.add(what);
      warn(`${what}s run without a sandbox: ${status.why}. ${remedy} confirms that this is intended`);
    }
    return false;
  };
  return {
    statusFor: statusFor,
    async wrapCommand(program, settings, readAlso) {
      if (!requireSandbox('command', settings.mode, '"sandbox": "none" in agentd.json')) return null;
      return (await backendFor(settings.mode)?.wrapCommand(program, { readAlso, network: settings.network })) ?? null;
    },
    async prepareServer(server, mode) {
      const sandboxed = requireSandbox('MCP server', mode, '"sandbox": "none" in its entry')
        ? backendFor(mode)?.prepareServer(server)
        : undefined;
      return sandboxed ?? launchUnsandboxed(server);
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
 * What a command can reach, sandboxed or not. Access that a person chose (`sandbox: "none"`, `network.shell`) is
 * granted. If none works, or only the weaker fence, and nobody chose that, each command needs approval. A refused
 * command reaches nothing.
 */
export function effectsOfCommand(status: SandboxStatus, { network }: SandboxSettings): CallEffects {
  if (status.isSandboxed && status.weaker) {
    const askReason = `it could end your other processes, the daemon included, from its weaker fence: ${status.weaker.why}`;
    return { touches: ['work', 'network', 'outside'], askReason };
  }
  if (status.isSandboxed)
    return network ? { touches: ['work', 'network'], granted: ['network'] } : { touches: ['work'] };
  if (status.isRefused) return { touches: [] };
  if (status.isChosen) return { touches: ['work', 'network', 'outside'], granted: ['network', 'outside'] };
  return { touches: ['work', 'network', 'outside'], askReason: `it would run without a sandbox: ${status.why}` };
}
