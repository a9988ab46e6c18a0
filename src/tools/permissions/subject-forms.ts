import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { escapePattern } from '../../protocol/settings/permissions.ts';
import { isInside, realPathOrNone } from '../common/path-lookup.ts';

/** What makes bash do more than one plain command: chains, pipes, redirections, substitutions. */
const CONTROL_OPERATORS = /[;&|<>`\n\r]|\$[({]/;

/** What makes it hard to say where a single quote begins and ends. */
const QUOTE_BREAKERS = /[\\"#$`]/;

/**
 * Whether a command is one plain command, so that a pattern which fits its beginning fits all it does. Text in single
 * quotes is text only where nothing else in the command may turn a quote into something else; in doubt it is not plain.
 */
export function isPlainCommand(command: string): boolean {
  if (!CONTROL_OPERATORS.test(command)) return true;
  return !QUOTE_BREAKERS.test(command) && !CONTROL_OPERATORS.test(command.replace(/'[^']*'/g, ''));
}

/**
 * Where one command of a line may end and the next begin; and the same inside of quotes: `bash -c "a; b"` runs both.
 */
const COMMAND_SEPARATORS = [
  /(?:[;&|\n\r(){}`<>]|\s-(?:exec|execdir|ok|okdir)\s)+|\$(?=[({])/,
  /(?:[;&|\n\r(){}`<>"']|\s-(?:exec|execdir|ok|okdir)\s)+|\$(?=[({])/,
];
const COMMAND_PREFIXES = /^(?:\s|!|(?:then|do|else|elif|if|while|until|time|coproc)\s|[A-Za-z_]\w*\+?=\S*\s)+/;
/** Programs that run what stands behind them and their options. */
const WRAPPER_PROGRAMS =
  /^(?:builtin|busybox|chroot|chrt|command|doas|env|eval|exec|flock|ionice|nice|nohup|nsenter|parallel|runuser|script|setarch|setpriv|setsid|stdbuf|su|sudo|taskset|time|timeout|toybox|unshare|watch|xargs|(?:ba|da|k|z|a)?sh)$/;
const REDIRECTION = /(?:\d*|&)(?:>>|>\||>&|<&|<<<|<>|>|<)\s*[^\s;&|()<>]+/g;

/**
 * All that may be a command in it, and the whole: what a rule that holds something back is tried on. Rather too many
 * than too few.
 */
export function possibleCommands(command: string): string[] {
  const joined = command.replace(/\\\r?\n/g, '');
  const lines = [joined, joined.replace(REDIRECTION, ' '), joined.replace(/\$\{?IFS\}?/g, ' '), expandBraces(joined)];
  const parts = [...new Set(lines)].flatMap((line) => COMMAND_SEPARATORS.flatMap((between) => line.split(between)));
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

/** The command as it stands, by its bare name, and whatever a program that only runs others may be given to run. */
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

/** How much of each is looked at: a long command has very many words, and what it is stands at its beginning. */
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

/** The address as it will be asked for: what looks like another host is read as what it is. */
export function normalizeAddress(url: string): string {
  if (!URL.canParse(url)) return url;
  const read = new URL(url);
  const host = plainIp(read.hostname.replace(/\.+$/, ''));
  if (read.hostname !== host) read.hostname = host;
  return read.href;
}

/** A host name in which an IPv4 address inside of IPv6 (`[::ffff:7f00:1]`) is the IPv4 address it stands for. */
export function plainIp(host: string): string {
  const inner = /^\[(.*)\]$/.exec(host)?.[1];
  if (inner === undefined || !ipaddr.IPv6.isValid(inner)) return host;
  const address = ipaddr.process(inner);
  return address.kind() === 'ipv4' ? address.toString() : host;
}

/**
 * Other ways to write the same address, one of which a server may take it for: without what stands behind `#`, with the
 * percent signs of its path decoded as often as that changes anything, and without doubled slashes. Null where it is
 * encoded so many times that it cannot be said what it stands for.
 */
export function equivalentAddresses(address: string): string[] | null {
  if (!URL.canParse(address)) return [];
  const url = new URL(address);
  url.hash = '';
  const forms = [url.href];
  for (let decoded = normalizeAddress(decodePath(url.href)); decoded !== forms.at(-1); ) {
    if (forms.length > MAX_ROUNDS) return null;
    forms.push(decoded);
    decoded = normalizeAddress(decodePath(decoded));
  }
  const flat = forms.map((form) => mapPath(form, (path) => path.replace(/\/{2,}/g, '/')));
  return [...new Set([...forms, ...flat])].filter((form) => form !== address);
}

/** Some servers decode what others have decoded before. */
const MAX_ROUNDS = 32;

/** One character of UTF-8 in percent encoding. Other bytes stand for no character and stay as they are. */
const ENCODED =
  /%[0-7][0-9a-f]|%[cd][0-9a-f]%[89ab][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-7](?:%[89ab][0-9a-f]){3}/gi;

/** The same with each character of its path decoded; `?` and `#` stay what they are. */
const decodePath = (address: string): string =>
  mapPath(address, (path) =>
    path.replace(ENCODED, (bytes) => {
      try {
        return decodeURIComponent(bytes).replace(/[?#\s]/g, encodeURIComponent);
      } catch {
        return bytes;
      }
    }),
  );

function mapPath(address: string, change: (path: string) => string): string {
  const [, host = '', path = '', rest = ''] = /^([a-z]+:\/\/[^/?#]*)([^?#]*)([\s\S]*)$/i.exec(address) ?? [];
  return host + change(path) + rest;
}

/** The rule for a tool and all of an address's host. */
export function hostRule(tool: string, url: string): string {
  const { origin } = URL.canParse(url) ? new URL(normalizeAddress(url)) : { origin: 'null' };
  return `${tool}(${origin === 'null' ? escapePattern(url) : `${escapePattern(origin)}/*`})`;
}

/** The folders that paths of a call are seen from: its own, and the `work/` this lies in. */
export type BaseFolders = { work: string; top?: string | undefined };

/** A file by all its names: those it has with every link resolved, and those by which it was asked for. */
export type PathNames = { real: readonly string[]; asked: readonly string[] };

/**
 * The names of what a path leads to, as rules may name it: relative to `work/`, and absolute. `x`, `./x`, `work/x`,
 * `a/../x`, its absolute path and a link to it are one file.
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

/** A path without the `./` and the one `work/` that it may begin with, as the file tools read it. */
export const stripWorkPrefix = (path: string): string => path.replace(/^(?:\.\/+)*(?:work(?:\/+|$))?/, '') || '.';

/** The path with the links on its way resolved, as far as it is there. */
function resolveExistingLinks(path: string): string {
  return realPathOrNone(path) ?? join(resolveExistingLinks(dirname(path)), basename(path));
}
