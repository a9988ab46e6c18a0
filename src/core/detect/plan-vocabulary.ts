import { contentWords, isCharacterPair } from '../text/content-words.ts';

/** Words with their weights, and the sum of all weights. */
interface WeightedWords {
  readonly words: readonly (readonly [string, number])[];
  readonly total: number;
}

/** A later step compared with the current one: the words that only one of the two has. */
export interface LaterStep {
  readonly index: number;
  readonly kind: ToolKind;
  readonly laterWords: WeightedWords;
  readonly currentWords: WeightedWords;
  /** File names in the later step that are not in the current one. */
  readonly laterFiles: ReadonlySet<string>;
}

/** The open steps of a plan, as words to compare a turn with. */
export interface PlanVocabulary {
  readonly currentKind: ToolKind;
  readonly laterSteps: readonly LaterStep[];
}

/** How many of the distinguishing words of two steps a text uses, each from 0 to 1. */
export interface WordOverlap {
  readonly later: number;
  readonly current: number;
}

const NO_OVERLAP: WordOverlap = { later: 0, current: 0 };

/** The same plan is looked up at every turn. The cache is bounded and changes no result. */
const vocabularyCache = new Map<string, PlanVocabulary>();
const MAX_CACHED_PLANS = 200;

export function planVocabulary(steps: readonly string[], current: number): PlanVocabulary {
  const key = `${current}\n${steps.join('\n')}`;
  const known = vocabularyCache.get(key);
  if (known) return known;
  const plan = buildVocabulary(steps, current);
  if (vocabularyCache.size >= MAX_CACHED_PLANS) vocabularyCache.clear();
  vocabularyCache.set(key, plan);
  return plan;
}

function buildVocabulary(steps: readonly string[], current: number): PlanVocabulary {
  const words = steps.map(contentWords);
  const files = steps.map(filesInDescription);
  const kinds = steps.map(stepKindOf);
  const sharedBy = new Map<string, number>();
  for (const step of words) for (const word of step) sharedBy.set(word, (sharedBy.get(word) ?? 0) + 1);
  const own = words[current] ?? new Set();
  const ownFiles = files[current] ?? new Set();
  const rivals = steps.flatMap((_, index): LaterStep[] => {
    const [theirs, theirFiles, kind] = [words[index], files[index], kinds[index]];
    if (index <= current || !theirs || !theirFiles || !kind) return [];
    return [
      {
        index,
        kind,
        laterWords: weighWords(difference(theirs, own), sharedBy),
        currentWords: weighWords(difference(own, theirs), sharedBy),
        laterFiles: new Set(difference(theirFiles, ownFiles)),
      },
    ];
  });
  return { currentKind: kinds[current] ?? 'other', laterSteps: rivals };
}

const difference = (some: ReadonlySet<string>, others: ReadonlySet<string>): string[] =>
  [...some].filter((thing) => !others.has(thing));

/** A word shared by many steps says little: each weighs one over the number of steps that have it. */
function weighWords(words: readonly string[], sharedBy: ReadonlyMap<string, number>): WeightedWords {
  const worths = words.map((word) => [word, 1 / (sharedBy.get(word) ?? 1)] as const);
  return {
    words: worths,
    total: worths.reduce((sum, [word, worth]) => sum + worth * (isCharacterPair(word) ? PAIR_WEIGHT : 1), 0),
  };
}

/**
 * Every second pair of characters spans two words, so a text with all the words has little more than half the pairs.
 */
const PAIR_WEIGHT = 0.6;

/** How many of the later step's words a text uses, and how many of the current step's. */
export const wordOverlap = (rival: LaterStep, mentioned: ReadonlySet<string>): WordOverlap =>
  mentioned.size === 0
    ? NO_OVERLAP
    : { later: overlapShare(rival.laterWords, mentioned), current: overlapShare(rival.currentWords, mentioned) };

function overlapShare({ words, total }: WeightedWords, mentioned: ReadonlySet<string>): number {
  let hit = 0;
  for (const [word, worth] of words) if (mentioned.has(word)) hit += worth;
  return total === 0 ? 0 : Math.min(1, hit / total);
}

/** The start of an argument shows what it is about; a script of a thousand lines shows no more than its head. */
const MAX_ARGUMENT_CHARS = 400;
const FILE_NAME_RUN = /[\w.-]+/g;
const FILE_ENDING = /(?<=\w)\.[a-z][a-z0-9]{0,4}(?!\w)/gi;

/**
 * File names, the most distinctive words that a plan and a tool call share: "Update setup.go" and an edit of
 * cmd/cli/setup.go. Each run of letters, dots and dashes is cut after its last extension. Matching run and extension in
 * one expression would take quadratic time.
 */
function fileNamesIn(text: string): Set<string> {
  const names = new Set<string>();
  for (const [run] of text.matchAll(FILE_NAME_RUN)) {
    let end = 0;
    for (const { 0: ending, index } of run.matchAll(FILE_ENDING)) end = index + ending.length;
    if (end > 0) names.add(run.slice(0, end).toLowerCase());
  }
  return names;
}

/** Names of the files in a description, without their folders. */
export const filesInDescription = (description: string): Set<string> =>
  description.includes('.') ? fileNamesIn(description) : new Set();

/** Names of the files in the arguments of tool calls, without their folders. */
export const filesInArguments = (args: readonly string[]): string[] =>
  args.flatMap((arg) => (arg.includes('.') ? [...fileNamesIn(arg.slice(0, MAX_ARGUMENT_CHARS))] : []));

/**
 * An argument as words: only the last two segments of each path, since the folders above are the same in every step.
 */
export const argumentWords = (arg: string): string =>
  arg
    .slice(0, MAX_ARGUMENT_CHARS)
    .split(/\s+/)
    .map((token) => token.split(/[/\\]/).slice(-2).join(' '))
    .join(' ');

/** What a tool does, judged by its name alone: tool names use the same few words everywhere. */
export type ToolKind = 'run' | 'edit' | 'read' | 'other';

const TOOL_KINDS: readonly (readonly [ToolKind, RegExp])[] = [
  ['run', /bash|exec|shell|terminal|run|command|stdin|process/i],
  ['edit', /edit|write|patch|create|replace|insert|delete|move|notebook|append/i],
  ['read', /read|grep|glob|^ls$|search|fetch|list|view|find|open|browse|get|look/i],
];
/** The kind of work a step asks for, by its first verb. Any other beginning asks for nothing in particular. */
const STEP_VERBS: readonly (readonly [ToolKind, RegExp])[] = [
  [
    'run',
    /^(?:(?:run|test|verify|lint|build|check|commit|push|validate|compile|install|execute|merge|deploy|start)(?![a-z])|运行|運行|测试|測試|验证|驗證|检查|檢查|安装|安裝|构建|構建|编译|編譯|提交|执行|執行|部署)/i,
  ],
  [
    'read',
    /^(?:(?:read|explore|analy[sz]e|investigate|understand|research|find|identify|review|study|search|look|examine|inspect|discover|map|locate)(?![a-z])|阅读|閱讀|读取|讀取|分析|研究|查找|查看|搜索|了解|调查|調查|探索)/i,
  ],
  [
    'edit',
    /^(?:(?:add|update|create|implement|remove|fix|write|rewrite|edit|move|refactor|rename|replace|modify|delete|strip|extract|wire|change|simplify|convert)(?![a-z])|修改|添加|创建|建立|創建|编写|編寫|写|寫|更新|实现|實現|删除|刪除|重构|重構|修复|修復)/i,
  ],
];
const LABEL =
  /^[^\p{L}]*(?:(?:step|task|phase|part|batch|round|步骤|步驟|任务|任務|阶段|階段)\s*#?\d+\s*[:：—–.-]*\s*)?/iu;

export const toolKindOf = (name: string): ToolKind =>
  TOOL_KINDS.find(([, pattern]) => pattern.test(name))?.[0] ?? 'other';

function stepKindOf(description: string): ToolKind {
  const verb = description.replace(LABEL, '');
  return STEP_VERBS.find(([, pattern]) => pattern.test(verb))?.[0] ?? 'other';
}
