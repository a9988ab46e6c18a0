import type { FileIdentity } from '../../protocol/session/event.ts';

/** A dropped file that is on record: its event, its message, and what it was then, as far as the record tells. */
export type TakenDrop = { seq: number; message: string; ctime?: string; name?: string };

/** What a dropped file is known by: the inode, the content, and when that changed. A moved file keeps all three. */
export function dropKey(file: { ino: string; mtime_ns: string; sha256: string }): string {
  return `${file.ino}:${file.mtime_ns}:${file.sha256}`;
}

export function toTakenDrop(seq: number, message: string, { ctime_ns, name }: FileIdentity): TakenDrop {
  return { seq, message, ...(ctime_ns !== undefined && { ctime: ctime_ns }), ...(name !== undefined && { name }) };
}

/**
 * What stands in the inbox now under the key of a drop that was taken. `born` in ns, where the file system tells it.
 */
type FoundDrop = { name: string; identity: FileIdentity; born?: bigint | undefined };

/**
 * What such a file is. `left over`: it was not moved out of the inbox yet. `new`: another file, or one that somebody
 * put back for another turn. `unclear`: nothing shows whether it ever left the inbox, so it must neither be dropped in
 * silence nor done twice.
 */
export function classifyReappearedDrop(
  taken: TakenDrop,
  found: FoundDrop,
  message: { name: string; isAnswered: boolean } | undefined,
): 'left over' | 'new' | 'unclear' {
  const isSameName = found.name === (taken.name ?? message?.name ?? taken.message);
  // Every move of a file changes this time, where the file system keeps it at all.
  const isUntouched = taken.ctime === undefined || taken.ctime === found.identity.ctime_ns;
  if (isSameName && isUntouched) return 'left over';
  if (taken.ctime !== undefined && found.born !== undefined && found.born > BigInt(taken.ctime)) return 'new';
  // What was refused may be judged once more: nothing was done, and what it lacked may be there now.
  if (!message || (message.isAnswered && !isSameName)) return 'new';
  return 'unclear';
}
