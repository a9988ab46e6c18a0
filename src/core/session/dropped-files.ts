import type { FileIdentity } from '../../protocol/session/event.ts';

/** A dropped file in the event log: its event, its message, and its identity at the time, as far as the log has it. */
export type TakenDrop = { seq: number; message: string; ctime?: string; name?: string };

/**
 * The identity of a dropped file: its inode, its content, and the time the content last changed. Moving a file keeps
 * all three.
 */
export function dropKey(file: { ino: string; mtime_ns: string; sha256: string }): string {
  return `${file.ino}:${file.mtime_ns}:${file.sha256}`;
}

export function toTakenDrop(seq: number, message: string, { ctime_ns, name }: FileIdentity): TakenDrop {
  return { seq, message, ...(ctime_ns !== undefined && { ctime: ctime_ns }), ...(name !== undefined && { name }) };
}

/**
 * A file in the inbox with the key of a drop that was already taken. `born` is in ns, if the file system reports it.
 */
type FoundDrop = { name: string; identity: FileIdentity; born?: bigint | undefined };

/**
 * Classifies such a file. `left over`: it has not been moved out of the inbox yet. `new`: another file, or one that
 * somebody put back on purpose. `unclear`: nothing shows whether it ever left the inbox, so it must be neither dropped
 * silently nor processed twice.
 */
export function classifyReappearedDrop(
  taken: TakenDrop,
  found: FoundDrop,
  message: { name: string; isAnswered: boolean } | undefined,
): 'left over' | 'new' | 'unclear' {
  const isSameName = found.name === (taken.name ?? message?.name ?? taken.message);
  // Every move of a file changes this time, if the file system keeps it at all.
  const isUntouched = taken.ctime === undefined || taken.ctime === found.identity.ctime_ns;
  if (isSameName && isUntouched) return 'left over';
  if (taken.ctime !== undefined && found.born !== undefined && found.born > BigInt(taken.ctime)) return 'new';
  // A rejected file may be checked again: nothing was done, and what was missing may be there now.
  if (!message || (message.isAnswered && !isSameName)) return 'new';
  return 'unclear';
}
