import type { Permission } from '../../engine/ports/tool-ports.ts';
import {
  type ApprovalsMode,
  type CallEffect,
  escapePattern,
  type PermissionRule,
  type Permissions,
  parsePermissionRule,
  patternOfRule,
} from '../../protocol/settings/permissions.ts';
import type { CallDescription } from '../common/define-tool.ts';
import {
  type BaseFolders,
  equivalentAddresses,
  isPlainCommand,
  namesOfPath,
  type PathNames,
  plainIp,
  possibleCommands,
  stripWorkPrefix,
} from './subject-forms.ts';

export type PermissionDecision = Permission;

const ASK_REASONS: Record<CallEffect, string> = {
  work: 'it changes something, and `approvals` is "safe"',
  network: 'it reaches the network',
  outside: 'it runs outside of the sandbox',
};

/**
 * Whether a call may run, with all it does: what is denied wins over what is asked about, and that over what is
 * allowed.
 */
export function decidePermission(
  call: CallDescription,
  permissions: Permissions,
  folders: BaseFolders,
): PermissionDecision {
  const { also = [] } = call;
  const all = [call, ...also].map((one) => decideOneCall(one, permissions, folders));
  const first = all.find(({ is }) => is === 'deny') ?? all.find((one) => one.is === 'ask' && one.rule);
  const found = first ?? all.find(({ is }) => is === 'ask');
  if (!found) return { is: 'allow' };
  // Whatever is asked about, a person sees the whole call.
  return found.is === 'ask' ? { ...found, shows: call.shows } : found;
}

/** The first rule that speaks of it decides, else `approvals`. */
function decideOneCall(call: CallDescription, permissions: Permissions, folders: BaseFolders): PermissionDecision {
  const subject = toRuleSubject(call, folders);
  const rule = findRule(permissions, subject);
  if (rule?.word === 'allow') return { is: 'allow' };
  if (rule?.word === 'deny')
    return { is: 'deny', why: `a rule of the settings denies it: { "deny": "${rule.pattern}" }` };
  const why = rule ? `a rule says so: { "ask": "${rule.pattern}" }` : defaultAskReason(call, permissions.mode);
  if (why === null) return { is: 'allow' };
  const always = subject.kind === 'path' ? pathRule(subject) : call.always;
  return { is: 'ask', why, rule: rule !== null, shows: call.shows, always };
}

/** The rule for a file by its one true name. */
function pathRule({ tool, text, names }: RuleSubject & { kind: 'path' }): string {
  return `${tool}(${escapePattern(names(text).real[0] ?? text)})`;
}

function toRuleSubject({ tool, text, kind, access }: CallDescription, folders: BaseFolders): RuleSubject {
  return kind === 'path'
    ? { tool, text, kind, access, names: (path) => namesOfPath(path, folders) }
    : { tool, text, kind };
}

/** Why a call that no rule speaks of is asked about; null where it is not. */
function defaultAskReason({ touches, granted = [], unheld }: CallDescription, mode: ApprovalsMode): string | null {
  if (unheld !== undefined) return unheld;
  if (mode === 'auto') return null;
  const open = mode === 'safe' ? touches : touches.filter((touch) => touch !== 'work' && !granted.includes(touch));
  const first = (['outside', 'network', 'work'] as const).find((touch) => open.includes(touch));
  return first === undefined ? null : ASK_REASONS[first];
}

/**
 * A call as rules see it: the tool, and the text their patterns are held against. `kind`: how that text is read.
 * `names`: of a path, of any path of this call.
 */
type RuleSubject = { tool: string; text: string } & (
  | { kind: 'command' | 'address' | 'text' }
  | { kind: 'path'; access?: 'read' | 'write' | undefined; names: (path: string) => PathNames }
);

/** A rule that holds back one of these holds back every tool that does the same with the content of a file. */
const FILE_TOOLS = { read: 'read_file', write: 'write_file' } as const;

type RuleEffect = 'allow' | 'ask' | 'deny';
type MatchedRule = { word: RuleEffect; pattern: string };

/** What the rules say of a call; null where none speaks of it. What the workspace denies, no session allows. */
function findRule({ session, workspace }: Permissions, subject: RuleSubject): MatchedRule | null {
  const workspaceRule = firstMatchingRule(workspace, subject);
  return workspaceRule?.word === 'deny' ? workspaceRule : (firstMatchingRule(session, subject) ?? workspaceRule);
}

function firstMatchingRule(rules: readonly PermissionRule[], subject: RuleSubject): MatchedRule | null {
  const rule = rules.find((one) => matchesRule(one, subject));
  return rule ? { word: parsePermissionRule(rule).word, pattern: patternOfRule(rule) } : null;
}

/** What may be written in several ways is allowed only by what it is in truth, and held back by any of them. */
function matchesRule(rule: PermissionRule, subject: RuleSubject): boolean {
  const { word, tool, text } = parsePermissionRule(rule);
  const same = subject.kind === 'path' && subject.access && word !== 'allow' ? [FILE_TOOLS[subject.access]] : [];
  if (![subject.tool, ...same].some((name) => matchesWildcard(tool, name))) return false;
  if (text === null || text === '*') return true;
  const { kind } = subject;
  switch (kind) {
    case 'address':
      return matchesAddressForms(word, text, subject.text);
    case 'command':
      if (word !== 'allow') return possibleCommands(subject.text).some((command) => matchesWildcard(text, command));
      return matchesWildcard(text, subject.text) && (!hasWildcard(text) || isPlainCommand(subject.text));
    case 'path':
      return matchesPath(word, text, subject.names(subject.text), subject.names);
    case 'text':
      return matchesWildcard(text, subject.text);
    default:
      return kind satisfies never;
  }
}

function matchesAddressForms(word: RuleEffect, pattern: string, address: string): boolean {
  const wanted = normalizePatternHost(pattern);
  if (word === 'allow' && !hasWildcard(wanted)) return matchesAddress(wanted, address);
  const others = equivalentAddresses(address);
  // Nobody can say what it stands for: each rule that holds back may speak of it.
  if (others === null) return word !== 'allow';
  const forms = [address, ...others];
  return word === 'allow'
    ? forms.every((form) => matchesAddress(wanted, form))
    : forms.some((form) => matchesAddress(wanted, form));
}

/**
 * A host as addresses have it: lower case, without the port that is meant anyway and a dot at its end, IPv4 as IPv4.
 */
function normalizePatternHost(pattern: string): string {
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

function matchesPath(word: RuleEffect, pattern: string, of: PathNames, names: (path: string) => PathNames): boolean {
  const wanted = stripWorkPrefix(pattern);
  if (word === 'allow') return of.real.some((name) => matchesWildcard(wanted, name));
  // A rule may name a folder by a link to it.
  const [, folder = '', rest = ''] = /^((?:[^*\\]*\/)?)([\s\S]*)$/.exec(wanted) ?? [];
  const folders = folder === '' ? [] : names(folder).real.map((real) => (real === '.' ? '' : `${real}/`));
  const all = [wanted, ...folders.map((real) => `${real}${rest}`)];
  return [...of.real, ...of.asked].some((name) => all.some((one) => matchesWildcard(one, name)));
}

type PatternPart = { char: string } | 'any';

function parsePattern(pattern: string): PatternPart[] {
  const found = pattern.match(/\\[\\*]|[\s\S]/gu) ?? [];
  return found.map((part) => (part === '*' ? 'any' : { char: [...part].at(-1) ?? '' }));
}

/**
 * A pattern in which `*` stands for any text, held against all of a text; `\*` and `\\` stand for themselves. Without a
 * regular expression: the text is the model's, and some expressions take for ever.
 */
export function matchesWildcard(pattern: string, text: string): boolean {
  const [parts, chars] = [parsePattern(pattern), [...text]];
  let [part, char] = [0, 0];
  /** Where the last star stands, and how far what it stands for reaches. */
  let star = { part: -1, char: 0 };
  while (char < chars.length) {
    const now = parts[part];
    if (now === 'any') {
      star = { part, char };
      part += 1;
    } else if (now?.char === chars[char]) {
      part += 1;
      char += 1;
    } else if (star.part >= 0) {
      star.char += 1;
      [part, char] = [star.part + 1, star.char];
    } else return false;
  }
  return parts.slice(part).every((rest) => rest === 'any');
}

/** Whether a `*` in it stands for something. */
const hasWildcard = (pattern: string): boolean => parsePattern(pattern).includes('any');

/**
 * The same for addresses: before the path a `*` stands for no slash and no user, so that `https://*.example.com/*` is
 * no other host that has the name somewhere in its path.
 */
function matchesAddress(pattern: string, address: string): boolean {
  const [wanted, came] = [splitAddress(pattern), splitAddress(address)];
  if (!wanted || !came) return matchesWildcard(pattern, address);
  const path = wanted.path === '' ? (wanted.host.endsWith('*') ? '*' : '/') : wanted.path;
  return (
    matchesWildcard(wanted.host, came.host) &&
    (wanted.host.includes('@') || !came.host.includes('@')) &&
    matchesWildcard(path, came.path)
  );
}

/** `scheme://host`, which has no slash behind it, and the path. */
function splitAddress(text: string): { host: string; path: string } | null {
  const found = /^([a-z*]+:\/\/[^/?#]*)([\s\S]*)$/i.exec(text);
  return found ? { host: found[1] ?? '', path: found[2] ?? '' } : null;
}
