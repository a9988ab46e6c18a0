import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import type { NodeId } from './disk.ts';
import type { Recording } from './recording.ts';

/** The inode number and times of a message's file when the daemon took it, as in the event log. */
export type Identity = { ino: bigint; mtimeNs: bigint; ctimeNs?: bigint };

/**
 * A file keeps its inode number through a power cut, but not when it is copied into the folder of a trial, where the
 * daemon would take a logged message for a new one. So this process reports the old number and times for those files.
 */
const known = new Map<string, Identity>();

/** Reports `path` with this identity until it is changed. */
export function pretend(path: string, identity: Identity): void {
  const { dev, ino, mtimeNs } = fs.lstatSync(path, { bigint: true });
  known.set(`${dev}:${ino}:${mtimeNs}`, identity);
}

export const forget = () => known.clear();

/** Patches `lstatSync`, `fstatSync` and `statSync`, the only calls that read the stat of messages. */
export function install(): void {
  for (const name of ['lstatSync', 'fstatSync', 'statSync'] as const) {
    const real: unknown = Reflect.get(fs, name);
    if (typeof real !== 'function') continue;
    Reflect.set(fs, name, (...args: unknown[]) => {
      const stat: unknown = Reflect.apply(real, fs, args);
      if (stat instanceof fs.Stats || known.size === 0) return stat;
      return as(stat);
    });
  }
  syncBuiltinESMExports();
}

function as(stat: unknown): unknown {
  if (typeof stat !== 'object' || stat === null || !('mtimeNs' in stat && 'ino' in stat && 'dev' in stat)) return stat;
  const identity = known.get(`${stat.dev}:${stat.ino}:${stat.mtimeNs}`);
  if (identity) Object.assign(stat, identity);
  return stat;
}

/** The messages' files by node, with the hash they had when they were taken. */
export function identitiesOf({ disk, events }: Recording): Map<NodeId, Identity & { sha256: string }> {
  const found = new Map<NodeId, Identity & { sha256: string }>();
  for (const event of events) {
    const file = event.type === 'message.received' || event.type === 'reply.committed' ? event.file : undefined;
    const name =
      event.type === 'message.received' ? event.name : event.type === 'reply.committed' ? event.reply.id : '';
    if (!file) continue;
    const atom = disk.atoms.findLast((one) => {
      const call = disk.calls[one.born];
      const path = call && ('path' in call ? call.path : call.to);
      return one.is === 'name' && one.node !== null && path?.endsWith(`/inbox/${name}`);
    });
    if (atom?.is === 'name' && atom.node !== null)
      found.set(atom.node, {
        ino: BigInt(file.ino),
        mtimeNs: BigInt(file.mtime_ns),
        ...(file.ctime_ns !== undefined && { ctimeNs: BigInt(file.ctime_ns) }),
        sha256: file.sha256,
      });
  }
  return found;
}
