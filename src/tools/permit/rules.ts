import { type PermissionRule, type Permissions, patternOf, readRule } from '../../protocol/permissions.ts';
import { otherForms, plainIp } from './address.ts';
import { commandsIn, isPlain } from './command.ts';
import { type PathNames, withoutWork } from './path.ts';
import { fits, fitsAddress, isOpen } from './pattern.ts';

/**
 * A call as rules see it: the tool, and the text their patterns are held against. `kind`: how that text is read. `names`: of a path,
 * of any path of this call.
 */
export type Subject = { tool: string; text: string } & (
  | { kind: 'command' | 'address' | 'text' }
  | { kind: 'path'; access?: 'read' | 'write' | undefined; names: (path: string) => PathNames }
);

/** A rule that holds back one of these holds back every tool that does the same with the content of a file. */
const FILE_TOOLS = { read: 'read_file', write: 'write_file' } as const;

type Word = 'allow' | 'ask' | 'deny';
type Found = { word: Word; pattern: string };

/**
 * What the rules say of a call; null where none speaks of it. What the workspace denies, no session allows; and what the root of a
 * family asks about or denies, no child session allows.
 */
export function ruleFor({ session, workspace, children = [] }: Permissions, subject: Subject): Found | null {
  const above = firstOf(workspace, subject);
  const family = above?.word === 'deny' ? above : (firstOf(session, subject) ?? above);
  const tighter = children.flatMap((rules) => firstOf(rules, subject) ?? []);
  const found = (word: Found['word']) => [family, ...tighter].find((rule) => rule?.word === word);
  return found('deny') ?? found('ask') ?? family;
}

function firstOf(rules: readonly PermissionRule[], subject: Subject): Found | null {
  const rule = rules.find((one) => matches(one, subject));
  return rule ? { word: readRule(rule).word, pattern: patternOf(rule) } : null;
}

/** What may be written in several ways is allowed only by what it is in truth, and held back by any of them. */
function matches(rule: PermissionRule, subject: Subject): boolean {
  const { word, tool, text } = readRule(rule);
  const same = subject.kind === 'path' && subject.access && word !== 'allow' ? [FILE_TOOLS[subject.access]] : [];
  if (![subject.tool, ...same].some((name) => fits(tool, name))) return false;
  if (text === null || text === '*') return true;
  const { kind } = subject;
  switch (kind) {
    case 'address':
      return fitsForms(word, text, subject.text);
    case 'command':
      if (word !== 'allow') return commandsIn(subject.text).some((command) => fits(text, command));
      return fits(text, subject.text) && (!isOpen(text) || isPlain(subject.text));
    case 'path':
      return fitsPath(word, text, subject.names(subject.text), subject.names);
    case 'text':
      return fits(text, subject.text);
    default:
      return kind satisfies never;
  }
}

function fitsForms(word: Word, pattern: string, address: string): boolean {
  const wanted = plainHost(pattern);
  if (word === 'allow' && !isOpen(wanted)) return fitsAddress(wanted, address);
  const others = otherForms(address);
  // Nobody can say what it stands for: each rule that holds back may speak of it.
  if (others === null) return word !== 'allow';
  const forms = [address, ...others];
  return word === 'allow'
    ? forms.every((form) => fitsAddress(wanted, form))
    : forms.some((form) => fitsAddress(wanted, form));
}

/** A host as addresses have it: lower case, without the port that is meant anyway and a dot at its end, IPv4 as IPv4. */
function plainHost(pattern: string): string {
  const [, scheme = '', host = '', rest = ''] = /^([a-z*]+:\/\/)([^/?#]*)([\s\S]*)$/i.exec(pattern) ?? [];
  if (scheme === '') return pattern;
  const meant = { 'http://': /:80$/, 'https://': /:443$/ }[scheme.toLowerCase()];
  const bare = meant ? host.replace(meant, '') : host;
  const plain = bare
    .toLowerCase()
    .replace(/\.(?=:\d|$)/, '')
    .replace(/^\[[^\]]*\]/, plainIp);
  return `${scheme.toLowerCase()}${plain}${rest}`;
}

function fitsPath(word: Word, pattern: string, of: PathNames, names: (path: string) => PathNames): boolean {
  const wanted = withoutWork(pattern);
  if (word === 'allow') return of.real.some((name) => fits(wanted, name));
  // A rule may name a folder by a link to it.
  const [, folder = '', rest = ''] = /^((?:[^*\\]*\/)?)([\s\S]*)$/.exec(wanted) ?? [];
  const folders = folder === '' ? [] : names(folder).real.map((real) => (real === '.' ? '' : `${real}/`));
  const all = [wanted, ...folders.map((real) => `${real}${rest}`)];
  return [...of.real, ...of.asked].some((name) => all.some((one) => fits(one, name)));
}
