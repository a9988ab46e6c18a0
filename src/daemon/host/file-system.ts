import * as fs from 'node:fs';

/** A file system, and whether this kernel sees every change of it and enforces its locks. */
export type FileSystem = { local: boolean; name: string };

/** The magic numbers of statfs(2) and linux/magic.h; those of macOS are below 64. */
const LOCAL_TYPES: ReadonlyMap<number, string> = new Map([
  [0xef53, 'ext4'],
  [0x58465342, 'xfs'],
  [0x9123683e, 'btrfs'],
  [0x01021994, 'tmpfs'],
  [0x858458f6, 'ramfs'],
  [0xf2f52010, 'f2fs'],
  [0x794c7630, 'overlay'],
  [0x2fc12fc1, 'zfs'],
  [0xca451a4e, 'bcachefs'],
  [0x3153464a, 'jfs'],
  [0x52654973, 'reiserfs'],
  [0x3434, 'nilfs2'],
  [0x4d44, 'vfat'],
  [0x2011bab0, 'exfat'],
  [0x7366746e, 'ntfs3'],
  [17, 'hfs'],
  [26, 'apfs'],
]);

/** Known to be changed from elsewhere; any type not in the list above is treated the same. */
const REMOTE_TYPES: ReadonlyMap<number, string> = new Map([
  [0x6969, 'nfs'],
  [0x517b, 'smb'],
  [0xff534d42, 'cifs'],
  [0xfe534d42, 'smb2'],
  [0x65735546, 'fuse'],
  [0x01021997, '9p'],
  [0x00c36400, 'ceph'],
  [0x0bd00bd0, 'lustre'],
  [0x786f4256, 'vboxsf'],
]);

/** Reads the type of a path's file system; replaceable in tests, since not every machine has one of each. */
export type ReadFsType = (path: string) => number;
export const readFsType: ReadFsType = (path) => fs.statfsSync(path).type;

/** The file system of a path. Throws what statfs throws. */
export function fileSystemAt(path: string, ask: ReadFsType = readFsType): FileSystem {
  // Some platforms return a signed number.
  const type = ask(path) >>> 0;
  const known = LOCAL_TYPES.get(type);
  return known
    ? { local: true, name: known }
    : { local: false, name: REMOTE_TYPES.get(type) ?? `type 0x${type.toString(16)}` };
}
