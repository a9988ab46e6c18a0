import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { attempt } from '../../base/user-error.ts';
import { escapePattern } from '../../protocol/settings/permissions.ts';
import { isInside, realPathOrNone } from '../common/path-lookup.ts';

/** What makes a line more than one plain command: chains, pipes, redirections, substitutions. */
const CONTROL_OPERATORS = /[;&|<>`\n\r]|\$[({]/;

/** What makes it ambiguous where a single-quoted text begins and ends. */
const QUOTE_BREAKERS = /[\\"#$`]/;

/**
 * Whether a text is one plain command, so that a pattern matching its beginning covers all it does. Single-quoted text
 * is literal only if nothing else in the command can change the quoting; in doubt the command is not plain.
 */
export function isPlainCommand(command: string): boolean {
  if (!CONTROL_OPERATORS.test(command)) return true;
  return !QUOTE_BREAKERS.test(command) && !CONTROL_OPERATORS.test(command.replace(/'[^']*'/g, ''));
}

/** Where one command of a line may end and the next begin, inside quotes too: `bash -c "a; b"` runs both. */
const COMMAND_SEPARATORS = [
  /(?:[;&|\n\r(){}`<>]|\s-(?:exec|execdir|ok|okdir)\s)+|\$(?=[({])/,
  /(?:[;&|\n\r(){}`<>"']|\s-(?:exec|execdir|ok|okdir)\s)+|\$(?=[({])/,
];
const COMMAND_PREFIXES = /^(?:\s|!|(?:then|do|else|elif|if|while|until|time|coproc)\s|[A-Za-z_]\w*\+?=\S*\s)+/;
/** Programs that run the command given as their arguments. */
const WRAPPER_PROGRAMS =
  /^(?:builtin|busybox|chroot|chrt|command|doas|env|eval|exec|flock|ionice|nice|nohup|nsenter|parallel|runuser|script|setarch|setpriv|setsid|stdbuf|su|sudo|taskset|time|timeout|toybox|unshare|watch|xargs|(?:ba|da|k|z|a)?sh)$/;
const REDIRECTION = /(?:\d*|&)(?:>>|>\||>&|<&|<<<|<>|>|<)\s*[^\s;&|()<>]+/g;

/** A word without anything that the shell expands to a command or redirects. */
const PLAIN_WORD = String.raw`(?:[^\s"'\`$\\;&|<>(){}#!]|'[^'\r\n]*'|"[^"\`$\\\r\n]*")+`;
/** One command of a program that only prints: none of these runs another program, whatever its arguments. */
const PRINTING_COMMAND = String.raw`(?:(?:/usr)?/bin/)?(?:grep|egrep|fgrep|echo|printf|cat|head|tail|wc|ls)(?:[ \t]+${PLAIN_WORD})*`;
/** A line of such commands and nothing else, in which quoted text is never run. */
const ONLY_PRINTS = new RegExp(
  `^\\s*${PRINTING_COMMAND}[ \\t]*(?:(?:\\|\\|?|&&|;)[ \\t]*${PRINTING_COMMAND}[ \\t]*)*$`,
);

/**
 * Every part that may be a command, and the whole line, for deny and ask rules. Errs on the side of too many.
 */
export function possibleCommands(command: string): string[] {
  const joined = command.replace(/\\\r?\n/g, '');
  const lines = [joined, joined.replace(REDIRECTION, ' '), joined.replace(/\$\{?IFS\}?/g, ' '), expandBraces(joined)];
  const parts = ONLY_PRINTS.test(joined)
    ? (joined.match(new RegExp(PRINTING_COMMAND, 'g')) ?? [])
    : [...new Set(lines)].flatMap((line) => COMMAND_SEPARATORS.flatMap((between) => line.split(between)));
  const found = new Set<string>([command]);
  for (const part of parts) {
    const bare = `${part} `.replace(COMMAND_PREFIXES, '').trim();
    for (const text of [part.trim(), bare, stripQuotes(bare)]) {
      for (const one of commandsRunByWrapper(text.replace(/\s+/g, ' '))) found.add(one);
      found.add(text);
    }
  }
  found.delete('');
  return [...found];
}

/** The command as written, by its bare name, and any command a wrapper program may be given to run. */
function commandsRunByWrapper(command: string): string[] {
  const words = command.split(' ');
  const own = withBareProgramName(command);
  if (!WRAPPER_PROGRAMS.test(programName(words[0] ?? ''))) return own;
  let at = 0;
  const given = words.slice(1).flatMap((_, place) => {
    at += (words[place]?.length ?? 0) + 1;
    return withBareProgramName(command.slice(at, at + MAX_COMMAND_CHARS));
  });
  return [...own, ...given];
}

/** How much of each part is examined; what a command does is at its beginning. */
const MAX_COMMAND_CHARS = 300;

function withBareProgramName(command: string): string[] {
  const [program = ''] = command.split(' ', 1);
  const plain = programName(program);
  return plain === program ? [command] : [command, plain + command.slice(program.length)];
}

const programName = (word: string): string => (word.endsWith('/') ? word : (word.split('/').at(-1) ?? word));

/** `r''m`, `"rm"`, `\rm` and `$'rm'` are `rm`. */
const stripQuotes = (text: string): string => text.replace(/\$(?=['"])|["'\\]/g, '');

/** `{rm,x}` is `rm x`. */
const expandBraces = (text: string): string =>
  text.replace(/\{([^{}\s]*,[^{}\s]*)\}/g, (_, inner: string) => inner.replaceAll(',', ' '));

/** The address as it will be requested, so that a disguised host is recognized. */
export function normalizeAddress(url: string): string {
  if (!URL.canParse(url)) return url;
  const read = new URL(url);
  const host = plainIp(read.hostname.replace(/\.+$/, ''));
  if (read.hostname !== host) read.hostname = host;
  return read.href;
}

/** A host name with an IPv4-mapped IPv6 address (`[::ffff:7f00:1]`) replaced by the IPv4 address. */
export function plainIp(host: string): string {
  const inner = /^\[(.*)\]$/.exec(host)?.[1];
  if (inner === undefined || !ipaddr.IPv6.isValid(inner)) return host;
  const address = ipaddr.process(inner);
  return address.kind() === 'ipv4' ? address.toString() : host;
}

/**
 * Other spellings of the same address, any of which a server may take it for: without the fragment, with the percent
 * encoding of its path decoded until nothing changes, and without doubled slashes. For rules that hold a call back
 * also with its query decoded, and with the IPv4 address that a translator reads from an IPv6 one. Null if it is
 * encoded so many times that it cannot be resolved.
 */
export function equivalentAddresses(address: string, holdsBack: boolean): string[] | null {
  if (!URL.canParse(address)) return [];
  const url = new URL(address);
  url.hash = '';
  const [byPath, byQuery] = [decodedForms(url.href, decodePath), decodedForms(url.href, decodePathAndQuery)];
  if (!byPath || !byQuery) return null;
  const forms = holdsBack ? [...byPath, ...byQuery] : byPath;
  const flat = forms.map((form) => mapPath(form, (path) => path.replace(/\/{2,}/g, '/')));
  const all = [...forms, ...flat];
  const hosts = holdsBack ? all.map((form) => form.replace(/\[[^\]/?#]*\]/, translatedIp)) : [];
  return [...new Set([...all, ...hosts])].filter((form) => form !== address);
}

/** Some servers decode what others have decoded already. */
const MAX_ROUNDS = 32;

/** The address, and what it becomes each time it is decoded; null if that does not end. */
function decodedForms(address: string, decode: (address: string) => string): string[] | null {
  const forms = [address];
  for (let decoded = normalizeAddress(decode(address)); decoded !== forms.at(-1); ) {
    if (forms.length > MAX_ROUNDS) return null;
    forms.push(decoded);
    decoded = normalizeAddress(decode(decoded));
  }
  return forms;
}

/** The first 12 bytes of IPv6 addresses whose last 4 are an IPv4 address: NAT64, and `::127.0.0.1`. */
const IPV4_PREFIXES = [Buffer.from('0064ff9b0000000000000000', 'hex'), Buffer.alloc(12)];

/** The IPv4 address in such a host, else the host; `[::]` and `[::1]` have none. */
function translatedIp(host: string): string {
  const inner = host.slice(1, -1);
  if (!ipaddr.IPv6.isValid(inner)) return host;
  const bytes = Buffer.from(ipaddr.IPv6.parse(inner).toByteArray());
  const isIpv4 = bytes[12] !== 0 && IPV4_PREFIXES.some((prefix) => prefix.equals(bytes.subarray(0, 12)));
  return isIpv4 ? bytes.subarray(12).join('.') : host;
}

/** One percent-encoded UTF-8 character. Other bytes are not characters and stay as they are. */
const ENCODED =
  /%[0-7][0-9a-f]|%[cd][0-9a-f]%[89ab][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-7](?:%[89ab][0-9a-f]){3}/gi;

/** A part of an address decoded, except the characters that would end it. */
const decodePart = (part: string, ends: RegExp): string =>
  part.replace(ENCODED, (bytes) => {
    return attempt(() => decodeURIComponent(bytes).replace(ends, encodeURIComponent)) ?? bytes;
  });

const decodePath = (address: string): string => mapPath(address, (path) => decodePart(path, /[?#\s]/g));

const decodePathAndQuery = (address: string): string =>
  decodePath(address).replace(/\?[^#]*/, (query) => decodePart(query, /[#\s]/g));

function mapPath(address: string, change: (path: string) => string): string {
  const [, host = '', path = '', rest = ''] = /^([a-z]+:\/\/[^/?#]*)([^?#]*)([\s\S]*)$/i.exec(address) ?? [];
  return host + change(path) + rest;
}

/** The rule for a tool and a whole host. */
export function hostRule(tool: string, url: string): string {
  const { origin } = URL.canParse(url) ? new URL(normalizeAddress(url)) : { origin: 'null' };
  return `${tool}(${origin === 'null' ? escapePattern(url) : `${escapePattern(origin)}/*`})`;
}

/** The folders that paths of a call are relative to: its own, and the `work/` that contains it. */
export type BaseFolders = { work: string; top?: string | undefined };

/** All names of a file: with every link resolved, and as requested. */
export type PathNames = { real: readonly string[]; asked: readonly string[] };

/**
 * The names by which rules may name a path's target: relative to `work/`, and absolute. `x`, `./x`, `work/x`, `a/../x`,
 * its absolute path and a link to it are one file.
 */
export function namesOfPath(path: string, { work, top }: BaseFolders): PathNames {
  const roots = [
    ...new Set([work, top ?? work].flatMap((folder) => [resolve(folder), resolveExistingLinks(resolve(folder))])),
  ];
  const meant = isAbsolute(path) ? resolve(path) : resolve(work, stripWorkPrefix(path));
  const from = (place: string) => [
    ...roots.filter((root) => isInside(root, place)).map((root) => relative(root, place) || '.'),
    place,
  ];
  const real = from(resolveExistingLinks(meant));
  return { real, asked: from(meant).filter((name) => !real.includes(name)) };
}

/** A path without a leading `./` and one leading `work/`, as the file tools read it. */
export const stripWorkPrefix = (path: string): string => path.replace(/^(?:\.\/+)*(?:work(?:\/+|$))?/, '') || '.';

/** The path with links resolved, as far as it exists. */
function resolveExistingLinks(path: string): string {
  return realPathOrNone(path) ?? join(resolveExistingLinks(dirname(path)), basename(path));
}
