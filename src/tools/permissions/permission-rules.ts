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

/** Whether a call may run, with all its effects: deny wins over ask, and ask over allow. */
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
  // Whichever part needs approval, a person sees the whole call.
  return found.is === 'ask' ? { ...found, display: call.display } : found;
}

/** The first matching rule decides, else `approvals`. */
function decideOneCall(call: CallDescription, permissions: Permissions, folders: BaseFolders): PermissionDecision {
  const subject = toRuleSubject(call, folders);
  const rule = findRule(permissions, subject);
  if (rule?.word === 'allow') return { is: 'allow' };
  if (rule?.word === 'deny')
    return { is: 'deny', why: `a rule of the settings denies it: { "deny": "${rule.pattern}" }` };
  const why = rule ? `a rule says so: { "ask": "${rule.pattern}" }` : defaultAskReason(call, permissions.mode);
  if (why === null) return { is: 'allow' };
  const always = subject.kind === 'path' ? pathRule(subject) : call.always;
  return { is: 'ask', why, rule: rule !== null, display: call.display, always };
}

/** The rule for a file by its real path. */
function pathRule({ tool, text, names }: RuleSubject & { kind: 'path' }): string {
  return `${tool}(${escapePattern(names(text).real[0] ?? text)})`;
}

function toRuleSubject({ tool, text, kind, access }: CallDescription, folders: BaseFolders): RuleSubject {
  return kind === 'path'
    ? { tool, text, kind, access, names: (path) => namesOfPath(path, folders) }
    : { tool, text, kind };
}

/** Why a call that no rule matches needs approval; null if it does not. */
function defaultAskReason({ touches, granted = [], askReason }: CallDescription, mode: ApprovalsMode): string | null {
  if (askReason !== undefined) return askReason;
  if (mode === 'auto') return null;
  const open = mode === 'safe' ? touches : touches.filter((touch) => touch !== 'work' && !granted.includes(touch));
  const first = (['outside', 'network', 'work'] as const).find((touch) => open.includes(touch));
  return first === undefined ? null : ASK_REASONS[first];
}

/**
 * A call as rules see it: the tool, and the text their patterns are matched against. `kind`: how that text is
 * interpreted. `names`: for a path, the names of any path of this call.
 */
type RuleSubject = { tool: string; text: string } & (
  | { kind: 'command' | 'address' | 'text' }
  | { kind: 'path'; access?: 'read' | 'write' | undefined; names: (path: string) => PathNames }
);

/** A deny or ask rule for one of these applies to every tool that does the same with the content of a file. */
const FILE_TOOLS = { read: 'read_file', write: 'write_file' } as const;

type RuleEffect = 'allow' | 'ask' | 'deny';
type MatchedRule = { word: RuleEffect; pattern: string };

/** The rule that decides a call; null if none matches. A session cannot allow what the workspace denies. */
function findRule({ session, workspace }: Permissions, subject: RuleSubject): MatchedRule | null {
  const workspaceRule = firstMatchingRule(workspace, subject);
  return workspaceRule?.word === 'deny' ? workspaceRule : (firstMatchingRule(session, subject) ?? workspaceRule);
}

function firstMatchingRule(rules: readonly PermissionRule[], subject: RuleSubject): MatchedRule | null {
  const rule = rules.find((one) => matchesRule(one, subject));
  return rule ? { word: parsePermissionRule(rule).word, pattern: patternOfRule(rule) } : null;
}

/**
 * A subject that can be written in several ways is allowed only by its normal form, but any form can deny it or require
 * approval.
 */
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
      // With a space after it, `git push *` means `git push` alone too.
      if (word !== 'allow')
        return possibleCommands(subject.text).some((one) =>
          [one, `${one} `].some((form) => matchesWildcard(text, form)),
        );
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
  const others = equivalentAddresses(address, word !== 'allow');
  // If it cannot be resolved, any deny or ask rule may apply to it.
  if (others === null) return word !== 'allow';
  const forms = [address, ...others];
  return word === 'allow'
    ? forms.every((form) => matchesAddress(wanted, form))
    : forms.some((form) => matchesAddress(wanted, form));
}

/** A host in normal form: lower case, without the default port and a trailing dot, IPv4-mapped addresses as IPv4. */
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
 * Matches a whole text against a pattern in which `*` stands for any text; `\*` and `\\` are literal. No regular
 * expression: the text comes from the model, and some expressions never finish.
 */
export function matchesWildcard(pattern: string, text: string): boolean {
  const [parts, chars] = [parsePattern(pattern), [...text]];
  let [part, char] = [0, 0];
  /** The position of the last star, and how far its match extends. */
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

/** Whether it contains an unescaped `*`. */
const hasWildcard = (pattern: string): boolean => parsePattern(pattern).includes('any');

/**
 * The same for addresses: before the path a `*` matches no slash and no user, so that `https://*.example.com/*` does
 * not match another host with that name in its path.
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

/** `scheme://host` without a trailing slash, and the path. */
function splitAddress(text: string): { host: string; path: string } | null {
  const found = /^([a-z*]+:\/\/[^/?#]*)([\s\S]*)$/i.exec(text);
  return found ? { host: found[1] ?? '', path: found[2] ?? '' } : null;
}
