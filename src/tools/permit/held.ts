import type { SandboxWish } from '../../protocol/config.ts';
import type { Touching } from '../define.ts';
import type { Hold } from '../sandbox.ts';

/**
 * What a command reaches behind its fence, or without one. What a person chose (`sandbox: "none"`, `network.shell`) is granted; where
 * no sandbox works and nobody chose that, each command is asked about. One that will be refused reaches nothing.
 */
export function touchedBy(hold: Hold, { network }: SandboxWish): Touching {
  if (hold.held) return network ? { touches: ['work', 'network'], granted: ['network'] } : { touches: ['work'] };
  if (hold.refused) return { touches: [] };
  if (hold.chosen) return { touches: ['work', 'network', 'outside'], granted: ['network', 'outside'] };
  return { touches: ['work', 'network', 'outside'], unheld: `it would run without a sandbox: ${hold.why}` };
}
