/** Names of files in an inbox that are never messages, and what they look like: parts, copies and traces of others. */
const IGNORED: ReadonlyArray<{ looks: string; names: RegExp }> = [
  { looks: 'hidden', names: /^\./ },
  {
    looks: 'an unfinished upload or download',
    names:
      /\.(?:part|partial|filepart|crdownload|download|opdownload|fdmdownload|dtapart|upload|uploading|driveupload|driveupload-incomplete|gstmp|aria2|writing|incomplete|inprogress|cyberducksegment|xltd|!(?:qb|ut|bt|sync)|(?:bc|jc|ut)!)$/,
  },
  {
    looks: "an editor's temporary file",
    names: /^#.*#$|^~\$|^4913$|\.(?:tmp|temp|sw[a-p]|swx|kate-swp|lock|crswap)$|___jb_(?:tmp|old|bak)___$/s,
  },
  {
    looks: 'a backup',
    names:
      /~$|\.(?:bak|backup|old|orig|rej|save|dpkg-(?:old|new|dist|tmp|bak)|rpm(?:save|new|orig)|ucf-(?:old|new|dist))(?:[.-]?\d+)?$/,
  },
  {
    looks: 'a conflict copy of a sync program',
    names: /\.sync-conflict-\d|[_-]conflict-\d|\([^()]*(?:conflicted copy|case conflict)[^()]*\)/,
  },
  { looks: 'a file of the desktop', names: /^(?:thumbs\.db|ehthumbs\.db|desktop\.ini|icon\r)$/ },
];

/** What a file in the inbox looks like if its name says that it is no message; undefined if it may be one. */
export function looksIgnored(raw: Buffer): string | undefined {
  const name = raw.toString('latin1').toLowerCase();
  return IGNORED.find(({ names }) => names.test(name))?.looks;
}

export const isIgnoredName = (raw: Buffer): boolean => looksIgnored(raw) !== undefined;

/** `looks`: what the file looks like, with its article. */
export type IgnoredFile = { name: string; looks: string };

/** Of these names, those that are ignored and not hidden, with what they look like: somebody may wait for an answer. */
export const listIgnored = (names: readonly Buffer[]): IgnoredFile[] =>
  names.flatMap((raw) => {
    const looks = looksIgnored(raw);
    return looks === undefined || looks === 'hidden' ? [] : [{ name: raw.toString(), looks }];
  });
