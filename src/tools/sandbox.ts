import * as fs from 'node:fs';
import { homedir } from 'node:os';
import type { SandboxWish } from '../protocol/config.ts';
import { UserError } from '../protocol/errors.ts';
import { isInSession } from '../protocol/program-path.ts';
import { bwrapFence } from './sandbox-bwrap.ts';
import { seatbeltFence } from './sandbox-macos.ts';
import type { Fenced, Found, Program, Server, Started } from './sandbox-port.ts';

/**
 * Whether a command is held. Where it is not: why, in words for a person, and whether a person chose so (`sandbox: none`), in
 * which case nobody need be asked. `refused`: a person wants a fence or nothing, so no command runs.
 */
export type Hold = { held: true; gaps: string[] } | { held: false; why: string; chosen: boolean; refused: boolean };

/** A try starts a program, and everything stands still for it. */
const AGAIN_MS = 10_000;

type Wish = Pick<SandboxWish, 'mode'> & Partial<SandboxWish>;

/** Where commands run. */
export type Sandbox = {
  /** Found out by a real try. */
  hold(wish: Wish): Hold;
  /** Null where the command is to run unheld. Throws UserError where that is not wanted. */
  around(program: Program, wish: SandboxWish, readAlso: string[]): Promise<Fenced | null>;
  /** The same for a server, by the `mode` of its entry. */
  start(server: Server, mode: SandboxWish['mode']): Promise<Started>;
};

export type SandboxOptions = {
  env: NodeJS.ProcessEnv;
  /** Folders that nothing in a fence may see, but for the session's own `work/`: the workspace. */
  hidden: string[];
  /** Told once where commands run unheld though nobody chose so. */
  warn?: (text: string) => void;
  /** How long none is looked for again, in ms. */
  againMs?: number;
};

/** The fence of this system, tried when it is first asked for, and again where none was found or it is gone: it may be installed any time. */
export function openSandbox({ env, hidden, warn = () => undefined, againMs = AGAIN_MS }: SandboxOptions): Sandbox {
  let found: Found | undefined;
  let lookedAt = 0;
  const warned = new Set<string>();
  const look = (): Found => {
    const isOld = found?.fence ? !found.fence.isThere() : performance.now() - lookedAt >= againMs;
    if (found && !isOld) return found;
    found = process.platform === 'darwin' ? seatbeltFence({ env, hidden }) : bwrapFence({ env, hidden });
    lookedAt = performance.now();
    if (found.fence) warned.clear();
    return found;
  };
  const hold = ({ mode }: Wish): Hold => {
    if (mode === 'none') return { held: false, why: '`sandbox` is "none"', chosen: true, refused: false };
    const { fence, ...not } = look();
    if (fence && (mode === 'auto' || fence.kind === mode)) return { held: true, gaps: fence.gaps };
    const why = 'why' in not ? not.why : `here it is ${fence?.kind}, not ${mode}`;
    return { held: false, why, chosen: false, refused: mode !== 'auto' };
  };
  /** Whether it is held; says once where that is not so and nobody chose it. Throws UserError where it must be. */
  const isHeld = (what: string, mode: SandboxWish['mode'], remedy: string): boolean => {
    const held = hold({ mode });
    if (held.held) return true;
    if (held.refused)
      throw new UserError(`The ${what} was not run: \`sandbox\` is "${mode}", and none works here: ${held.why}.`);
    if (!held.chosen && !warned.has(what)) {
      warned.add(what);
      warn(`${what}s run without a sandbox: ${held.why}. ${remedy} says that this is meant`);
    }
    return false;
  };
  return {
    hold,
    async around(program, wish, readAlso) {
      if (!isHeld('command', wish.mode, '"sandbox": "none" in agentd.json')) return null;
      return (await look().fence?.around(program, { readAlso, network: wish.network })) ?? null;
    },
    async start(server, mode) {
      const held = isHeld('MCP server', mode, '"sandbox": "none" in its entry')
        ? look().fence?.hold(server)
        : undefined;
      return held ?? unfenced(server);
    },
  };
}

/** A server as it is started without a sandbox. */
export function unfenced({ command, args, env, cwd }: Server): Started {
  return { command, args, env, cwd: cwd ?? homeOf(env), release: () => undefined };
}

/** The person's own home folder, as long as that is none a model writes to. */
function homeOf(env: Record<string, string>): string {
  const home = env['HOME'] ?? homedir();
  return fs.existsSync(home) && !isInSession(home) && !isInSession(fs.realpathSync(home)) ? home : '/';
}
