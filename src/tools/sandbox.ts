import type { SandboxWish } from '../protocol/config.ts';
import { UserError } from '../protocol/errors.ts';
import { bwrapFence } from './sandbox-bwrap.ts';
import { seatbeltFence } from './sandbox-macos.ts';
import type { Fenced, Found, Program } from './sandbox-port.ts';

/**
 * Whether a command is held. Where it is not: why, in words for a person, and whether a person chose so (`sandbox: none`), in
 * which case nobody need be asked. `refused`: a person wants a fence or nothing, so no command runs.
 */
export type Hold = { held: true; gaps: string[] } | { held: false; why: string; chosen: boolean; refused: boolean };

/** Where commands run. */
export type Sandbox = {
  /** Found out by a real try, once. */
  hold(wish: SandboxWish): Hold;
  /** Null where the command is to run unheld. Throws UserError where that is not wanted. */
  around(program: Program, wish: SandboxWish, readAlso: string[]): Fenced | null;
};

export type SandboxOptions = {
  env: NodeJS.ProcessEnv;
  /** Folders that nothing in a fence may see, but for the session's own `work/`: the workspace. */
  hidden: string[];
  /** Told once where commands run unheld though nobody chose so. */
  warn?: (text: string) => void;
};

/** The fence of this system, tried when it is first asked for. */
export function openSandbox({ env, hidden, warn = () => undefined }: SandboxOptions): Sandbox {
  let found: Found | undefined;
  let warned = false;
  const look = (): Found => {
    found ??= process.platform === 'darwin' ? seatbeltFence({ env, hidden }) : bwrapFence({ env, hidden });
    return found;
  };
  const hold = ({ mode }: SandboxWish): Hold => {
    if (mode === 'none') return { held: false, why: '`sandbox` is "none"', chosen: true, refused: false };
    const { fence, ...not } = look();
    if (fence && (mode === 'auto' || fence.kind === mode)) return { held: true, gaps: fence.gaps };
    const why = 'why' in not ? not.why : `here it is ${fence?.kind}, not ${mode}`;
    return { held: false, why, chosen: false, refused: mode !== 'auto' };
  };
  return {
    hold,
    around(program, wish, readAlso) {
      const held = hold(wish);
      if (held.held) return look().fence?.around(program, { readAlso, network: wish.network }) ?? null;
      if (held.refused) {
        throw new UserError(
          `The command was not run: \`sandbox\` is "${wish.mode}", and none works here: ${held.why}.`,
        );
      }
      if (!held.chosen && !warned) {
        warned = true;
        warn(`commands run without a sandbox: ${held.why}. "sandbox": "none" in agentd.json says that this is meant`);
      }
      return null;
    },
  };
}
